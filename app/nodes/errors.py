"""Errors of nodes."""

from __future__ import annotations

from app.kit.errors import BadInput, Conflict, NotFound


class NodeNotFound(NotFound):
    code = "NODE_NOT_FOUND"


class NodeExists(Conflict):
    code = "NODE_EXISTS"


class NodeBusy(Conflict):
    """The node still has work."""

    code = "NODE_BUSY"


class BadNodeName(BadInput):
    code = "BAD_NODE_NAME"
