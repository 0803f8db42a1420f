"""Tests of delivery: alerts over time, and the messages that each receiver must get."""
