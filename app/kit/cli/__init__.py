"""Shared code of all commands."""
