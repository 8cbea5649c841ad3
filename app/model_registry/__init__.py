"""Models by name: what conversion made, or its user brought, kept for as long as something is to run it."""
