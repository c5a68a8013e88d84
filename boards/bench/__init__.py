"""Measures the product against plain SQL on the same server, in the same run (spec: 10).

It works in databases of its own, which it makes and drops, and uses the engines' verbs and real drain processes; it
writes state by itself only where a measurement needs more history than verbs could make in its time.
"""
