"""Database migrations of conversion only."""
