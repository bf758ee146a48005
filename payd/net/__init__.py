"""Floor 1, the way out to other hosts."""
