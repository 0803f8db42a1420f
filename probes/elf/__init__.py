"""What a uprobe needs to know of a library: where a function starts and where it returns."""
