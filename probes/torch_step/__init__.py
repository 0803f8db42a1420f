"""Where a PyTorch step ends and how much of it was spent waiting for other ranks."""
