"""`modelmill train …`: submit, list, show, logs, cancel, cluster. Heavy libraries are imported by what needs them.

A command parses, calls the client and prints; results go to stdout, troubles to stderr.
"""

from app.training.cli.tasks import commands

__all__ = ["commands"]
