"""Verdicts as text, JSON and JUnit XML."""
