"""Floor 4, HTTP: decodes, calls one thing, encodes, and decides nothing."""
