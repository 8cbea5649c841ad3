"""`modelmill joint …`: apply, list, show, delete, demo, operator. Heavy libraries are imported by what needs them.

A command parses, calls the client and prints; results go to stdout, troubles to stderr.
"""

from app.joint_inference.cli import processes as _running  # noqa: F401  # adds its commands
from app.joint_inference.cli.services import commands

__all__ = ["commands"]
