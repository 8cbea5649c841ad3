"""Sweeps: models times options, each a job, side by side in one table."""
