"""Database migrations of notifications only."""
