"""What probes cost the jobs that they watch, and what is done when it is too much."""
