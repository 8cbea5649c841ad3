"""Addresses of this machine."""
