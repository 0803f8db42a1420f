"""Which receivers an alert is for, and when they may be told."""
