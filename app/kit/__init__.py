"""Shared code that depends on no capability."""
