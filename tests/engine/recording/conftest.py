"""Fixtures of recordings."""
