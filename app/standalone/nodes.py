"""Agents of nodes beside a stack, on its machine."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app.standalone.data_folder import DataFolder
from app.standalone.process import Part
from app.standalone.supervisor import Notice, Supervisor

CODE = Path(__file__).parents[2]
GRACE_S = 10.0


@contextmanager
def run_attached_nodes(parts: list[Part], folder: Path, notice: Notice) -> Iterator[None]:
    """Runs agents for a running product within the block.

    Args:
        parts: see node_part.
        folder: of their logs.
        notice: called with what happens to the processes.

    Raises:
        CannotStart: The folder cannot be written.
    """
    data = DataFolder(folder / "data", folder / "run")
    data.prepare()
    supervisor = Supervisor(data, lambda _: os.environ, cwd=CODE, notice=notice)
    try:
        supervisor.start(parts)
        yield
    finally:
        supervisor.stop(GRACE_S)


def node_part(name: str, side: str, url: str, folder: Path, *arguments: str) -> Part:
    """Returns an agent that registers itself, as is allowed on the web's machine.

    Args:
        name: of the node.
        side: cloud, edge or host.
        url: of the web.
        folder: the agent's own.
        arguments: further ones of `modelmill node`.
    """
    node = ("--name", name, "--side", side, "--cloud", url, "--data-dir", str(folder))
    return Part(f"node-{name}", (sys.executable, "-m", "app.cli.main", "node", *node, "--stop-workers", *arguments))
