"""Access to a node and its cameras: what a user sees of it. Pure.

A camera is a video, by its id, or a source, by the path or pattern that the node offers. One with its own rule is
available to users who may use the node and match that rule.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from app.kit.access import EVERYBODY, AccessRule, Member, read_allowed
from app.kit.text.json_values import JsonObject
from app.nodes.model import Node

CAMERAS = ("videos", "sources")
MOST_CAMERAS = 500
NOBODY = AccessRule(())
"""Nobody but administrators."""


@dataclass(frozen=True)
class Grants:
    """Who may use a node and its cameras. A camera without a rule is for everybody who may use the node."""

    node: AccessRule = EVERYBODY
    owners: AccessRule = NOBODY
    """Who else may change these rules, label the node and change its cameras; they may use it, too."""
    videos: Mapping[str, AccessRule] = field(default_factory=dict)
    sources: Mapping[str, AccessRule] = field(default_factory=dict)

    def hidden(self, member: Member) -> dict[str, list[str]]:
        """Returns the restricted cameras that this user may not use, by kind."""
        return {
            kind: [name for name, allowed in sorted(getattr(self, kind).items()) if not allowed.admits(member)]
            for kind in CAMERAS
        }

    def to_json(self) -> JsonObject:
        shown = {kind: {name: rule.to_json() for name, rule in sorted(getattr(self, kind).items())} for kind in CAMERAS}
        return {"allowed": self.node.to_json(), "owners": list(self.owners.names or ()), **shown}


def read_grants(data: Mapping[str, Any]) -> Grants:
    """Reads the rules.

    Raises:
        BadAccess: As `read_allowed`.
    """
    cameras = {
        kind: {
            str(name): read_allowed(allowed) for name, allowed in (data.get(kind) or {}).items() if allowed is not None
        }
        for kind in CAMERAS
    }
    return Grants(read_allowed(data.get("allowed")), read_allowed(data.get("owners") or ()), **cameras)


def visible_node(member: Member, node: Node, grants: Grants) -> Node | None:
    """Returns the node without the cameras that this user may not use. None: they may not use the node."""
    if not grants.node.admits(member) and not grants.owners.admits(member):
        return None
    hidden = grants.hidden(member)
    if not any(hidden.values()):
        return node
    offers = {kind: _remove_hidden(offered, hidden) for kind, offered in node.report.offers.items()}
    return replace(node, report=replace(node.report, offers=offers))


def _remove_hidden(offered: Any, hidden: Mapping[str, list[str]]) -> Any:
    """Removes the hidden cameras. The form of a node's offers is not trusted."""
    if not isinstance(offered, Mapping):
        return offered
    return {
        name: {key: entry for key, entry in entries.items() if str(key) not in hidden[name]}
        if name in hidden and isinstance(entries, Mapping)
        else entries
        for name, entries in offered.items()
    }
