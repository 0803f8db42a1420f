"""A runner for Prometheus' own test language (its promql/promqltest/README.md is the reference)."""
