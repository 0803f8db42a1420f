"""Slack: what a message looks like there, and where the group's earlier one stands."""
