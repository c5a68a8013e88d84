"""What runs in a step, one module for each kind that is more than one task or one question (spec: 05 section 1).

Importing this package registers them; `boards.flows.entering` and `boards.flows.branches` ask the registry.
"""
