"""Which processes map which library files, followed without polling every process."""
