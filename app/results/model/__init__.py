"""Results as they are: rows, events, sinks, and what makes them. Pure."""
