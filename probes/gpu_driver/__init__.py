"""How long the GPU driver's system calls take, and which fail."""
