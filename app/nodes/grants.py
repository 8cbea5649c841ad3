"""Who may use a node, and its cameras: what of it a user sees. Pure.

A camera is a video, by its id, or a source, by the path or pattern that the node offers. It follows its node unless it
is narrowed: then a user needs both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from app.kit.access import EVERYBODY, AccessRule, Member, read_allowed
from app.nodes.model import Node

CAMERAS = ("videos", "sources")
MOST_CAMERAS = 500


@dataclass(frozen=True)
class Grants:
    """A camera that is not named is for whoever may use the node."""

    node: AccessRule = EVERYBODY
    videos: Mapping[str, AccessRule] = field(default_factory=dict)
    sources: Mapping[str, AccessRule] = field(default_factory=dict)

    def hidden(self, member: Member) -> dict[str, list[str]]:
        """Cameras that this user may not use, of those that are narrowed."""
        return {
            kind: [name for name, allowed in sorted(getattr(self, kind).items()) if not allowed.admits(member)]
            for kind in CAMERAS
        }

    def to_json(self) -> dict[str, Any]:
        shown = {kind: {name: one.to_json() for name, one in sorted(getattr(self, kind).items())} for kind in CAMERAS}
        return {"allowed": self.node.to_json(), **shown}


def read_grants(data: Mapping[str, Any]) -> Grants:
    """Raises BadAccess."""
    cameras = {
        kind: {
            str(name): read_allowed(allowed) for name, allowed in (data.get(kind) or {}).items() if allowed is not None
        }
        for kind in CAMERAS
    }
    return Grants(read_allowed(data.get("allowed")), **cameras)


def seen_by(member: Member, node: Node, grants: Grants) -> Node | None:
    """The node as this user may see it: without cameras that are not for them. None: they see none of it."""
    if not grants.node.admits(member):
        return None
    hidden = grants.hidden(member)
    if not any(hidden.values()):
        return node
    offers = {kind: _without(offered, hidden) for kind, offered in node.report.offers.items()}
    return replace(node, report=replace(node.report, offers=offers))


def _without(offered: Any, hidden: Mapping[str, list[str]]) -> Any:
    """What a node says is not believed to have the right form."""
    if not isinstance(offered, Mapping):
        return offered
    return {
        name: {key: what for key, what in found.items() if str(key) not in hidden[name]}
        if name in hidden and isinstance(found, Mapping)
        else found
        for name, found in offered.items()
    }
