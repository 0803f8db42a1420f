"""How much CPU time is spent in functions that are called too often to be counted."""
