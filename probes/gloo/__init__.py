"""Gloo: waits in flight, connects, failures, ranks."""
