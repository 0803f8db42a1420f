"""Groups of rules: one evaluation of them, and what it leaves behind."""
