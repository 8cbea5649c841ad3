"""The check that no two services broadcast under the same path of a node: one would replace the other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection

from app.joint_inference import store
from app.joint_inference.model.resource import Worker, specification_of
from app.joint_inference.model.sources import BROADCAST
from app.kit.errors import Conflict


def check_broadcast(conn: Connection, spec: Mapping[str, Any], uid: str = "") -> None:
    """Checks the path of a new or changed service, whoever owns the others.

    Args:
        spec: of the service.
        uid: of the service; empty: it is new.

    Raises:
        Conflict: Another service has its path, on the same node or on nodes that may be the same.
    """
    edge = specification_of(spec).edge
    path = edge.parameters.get(BROADCAST, "")
    if not path:
        return
    others = (one.specification.edge for one in store.there_with_text(conn, f'"{BROADCAST}"') if one.uid != uid)
    if any(other.parameters.get(BROADCAST) == path and _may_share_a_node(edge, other) for other in others):
        raise Conflict(
            f"A service on {edge.place} is broadcast as {path!r} already.", hint="Choose another path, or leave it out."
        )


def _may_share_a_node(one: Worker, other: Worker) -> bool:
    """Services on several nodes have the name of each in their paths, others have not."""
    return bool(one.selector and other.selector) or (bool(one.node) and one.node == other.node)
