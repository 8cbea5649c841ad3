# Made from _async by generate.py: change that.
"""The client that waits by itself."""
