"""What the web side of every capability shares."""
