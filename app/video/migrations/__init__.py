"""Database migrations of video only."""
