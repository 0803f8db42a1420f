"""MPI: calls, waits, initialisation, errors, aborts."""
