"""Threads and slots of worker processes."""
