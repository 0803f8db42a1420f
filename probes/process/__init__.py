"""Counts exec on the node: container start storms."""
