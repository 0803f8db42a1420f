"""Readings of processes become samples of tasks and ranks."""
