"""Models by name: from conversions or uploads, kept as long as something uses them."""
