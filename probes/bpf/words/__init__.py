"""The few words that BPF programs are written in, and how a loader spells them."""
