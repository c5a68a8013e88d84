"""What committed writes still owe. Nothing here knows what a kind means: engines register their payers."""
