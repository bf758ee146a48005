"""Floor 3: long-lived tasks. What they work on is rows; what they wait for is derived from rows."""
