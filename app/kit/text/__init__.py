"""Text in and out: YAML, errors, orders of names."""
