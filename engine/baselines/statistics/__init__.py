"""Streaming statistics, one a module: `update` takes a value, `get` says what is known."""
