"""Agents of nodes beside a stack, on its machine."""

from __future__ import annotations

import sys
from pathlib import Path

from app.standalone.process import Part


def node_part(name: str, side: str, url: str, folder: Path, *arguments: str) -> Part:
    """An agent that registers itself, as one on the web's machine may.

    Args:
        name: of the node.
        side: cloud, edge or host.
        url: of the web.
        folder: the agent's own.
        arguments: further ones of `modelmill node`.
    """
    node = ("--name", name, "--side", side, "--cloud", url, "--data-dir", str(folder))
    return Part(f"node-{name}", (sys.executable, "-m", "app.cli.main", "node", *node, "--stop-workers", *arguments))
