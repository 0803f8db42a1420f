"""What RDMA ports say of retransmission, congestion and errors, joined to the tasks on them."""
