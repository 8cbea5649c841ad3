"""Database migrations of accounts only."""
