"""Results: rows, events, sinks, and their producers. Pure."""
