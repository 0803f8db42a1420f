"""What a process asks of NCCL, its communicators, and how long it waits for them."""
