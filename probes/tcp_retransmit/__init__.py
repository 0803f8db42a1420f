"""TCP retransmits, each owned by the process that owns its socket."""
