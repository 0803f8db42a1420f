"""PromQL's functions: one file a family, one table."""
