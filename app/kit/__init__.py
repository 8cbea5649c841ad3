"""What every capability uses, and what knows none of them."""
