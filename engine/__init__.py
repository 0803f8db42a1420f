"""Samples, aggregation, store, evaluation, alert state, pipelines and the command line."""
