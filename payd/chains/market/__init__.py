"""What assets cost: exchanges and oracles that have to agree, or a table of one's own."""
