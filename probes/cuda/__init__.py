"""What processes ask of CUDA: calls, bytes, waiting, memory."""
