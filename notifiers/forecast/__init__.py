"""What alerts would have cost their readers: how many messages, how many of them at night."""
