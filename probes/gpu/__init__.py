"""How busy each GPU is, and for which process."""
