"""Errors of nodes."""

from __future__ import annotations

from app.kit.errors import BadInput, Conflict, NotFound


class NodeNotFound(NotFound, code="NODE_NOT_FOUND"): ...


class NodeExists(Conflict, code="NODE_EXISTS"): ...


class NodeBusy(Conflict, code="NODE_BUSY"):
    """The node still has work."""


class BadNodeName(BadInput, code="BAD_NODE_NAME"): ...
