"""Commands that look at probes."""
