"""Delivery: outbox, receivers and message templates."""
