"""`modelmill nodes …`: the machines that run models, and their cameras; for administrators."""

from __future__ import annotations

from app.nodes.cli import camera_commands as _cameras  # adds its commands
from app.nodes.cli import node_commands as _nodes
from app.nodes.cli.node_commands import commands
