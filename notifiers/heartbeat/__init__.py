"""A sign of life for a monitor outside: it notices when the signs stop."""
