"""Shared web code of every capability."""
