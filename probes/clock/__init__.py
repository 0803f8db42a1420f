"""The node's clocks: kernel time as wall time, and how far the wall clock can be trusted."""
