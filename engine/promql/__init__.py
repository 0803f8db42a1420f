"""Evaluation of PromQL over a whole axis at once."""
