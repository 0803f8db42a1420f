"""Subcommands about delivery."""
