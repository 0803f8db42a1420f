"""A slow, obvious evaluator of PromQL: one step, one series, one sample at a time."""
