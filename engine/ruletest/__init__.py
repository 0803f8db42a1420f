"""Unit tests of rules, in promtool's format: `stallwatch test`."""
