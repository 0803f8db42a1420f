"""Probes at the entry and exits of functions in shared libraries, counted per process."""
