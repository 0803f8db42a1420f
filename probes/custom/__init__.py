"""Probes that a user writes in YAML: a library, a symbol, and what to take of its calls."""
