"""Silences: what they are, how they may change, which of them hold back an alert."""
