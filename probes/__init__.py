"""On-node probes, one folder each, and the loader that attaches them."""
