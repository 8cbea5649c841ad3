"""Database migrations of homes only."""
