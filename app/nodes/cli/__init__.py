"""`modelmill nodes …`: the machines that run models, and their cameras; for administrators."""

from __future__ import annotations

from app.nodes.cli import camera_commands as _cameras  # noqa: F401  # adds its commands
from app.nodes.cli import node_commands as _nodes  # noqa: F401
from app.nodes.cli.node_commands import commands

__all__ = ["commands"]
