"""One module per receiver; each registers in the entry-point group `stallwatch.receivers`."""
