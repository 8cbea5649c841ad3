"""Database migrations of training only."""
