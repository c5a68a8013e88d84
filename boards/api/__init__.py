"""`/api/v1/`: the same verbs and reads as the pages, as JSON (spec: 06 sections 2 and 4).

An operation (`operations.Operation`) says all that a door has to know of it: its name, which is the tool's too, where
it stands, the scope it takes, and the shapes of what is said and answered. `door` is the one view: who asks, what is
read, one call, the answer. `openapi` writes the document from the same operations. Nothing here decides what the
engines do.
"""
