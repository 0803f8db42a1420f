"""What probes cost a command: the command with them and without, in turns."""
