"""What this kernel, these capabilities and these libraries allow, found out before any start."""
