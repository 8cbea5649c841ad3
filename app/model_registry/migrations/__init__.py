"""Database migrations of the model registry only."""
