"""Step measure: how much the nodes of running tasks are used, as Ray tells it, into the folders of their attempts."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence

from app.training.model import Node
from app.training.model.learning_curve import NODES_FILE
from app.training.model.node_use import NodeUse, use_metrics
from app.training.service.scheduling.attempt_files import new_file, old_file, open_folder, write_all
from app.training.service.scheduling.context import Allocation, SchedulerContext, TickContext

EVERY_S = 15.0
MOST_BYTES = 16 << 20
"""Of an attempt's file: two weeks of two nodes. Later rows are dropped."""


def write_use(
    context: SchedulerContext,
    allocation: Allocation,
    nodes: Sequence[Node],
    uses: Mapping[str, NodeUse],
    tick: TickContext,
) -> None:
    """Appends a row about the nodes on which a running task has something. Raises errors of homes.

    Args:
        uses: by node id.
    """
    claim, driver = allocation.claim, allocation.attempt.driver_node_id
    held = {*claim.gpus, *claim.cpus, *([driver] if driver else [])}
    names = _name_nodes([node for node in nodes if node.node_id in held and node.node_id in uses])
    if not allocation.is_running or not names:
        return
    at = round(tick.now.timestamp(), 3)
    row = {"step": int(at), "time": at, **use_metrics({name: uses[node_id] for node_id, name in names.items()})}
    _append(context, allocation, json.dumps(row).encode() + b"\n")


def _name_nodes(nodes: Sequence[Node]) -> dict[str, str]:
    """By id: the address, of several with one address with a part of the id."""
    addresses = [node.address for node in nodes]
    return {
        node.node_id: node.address
        if node.address and addresses.count(node.address) == 1
        else f"{node.address} {node.node_id[:8]}".strip()
        for node in nodes
    }


def _append(context: SchedulerContext, allocation: Allocation, line: bytes) -> None:
    files, user, folder = context.homes.files, allocation.task.user, allocation.attempt.folder
    with open_folder(files, user, folder) as folder_fd:
        with old_file(folder_fd, NODES_FILE, os.O_WRONLY | os.O_APPEND) as fd:
            if fd is not None:
                if os.fstat(fd).st_size < MOST_BYTES:
                    write_all(fd, line)
                return
        with new_file(folder_fd, NODES_FILE) as fd:
            write_all(fd, line)
