"""The operators' site: a window on all state, with acts that are the verbs of every other door (spec: 08 section 3)."""
