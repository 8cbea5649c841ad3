"""The owners of a service's fields: metadata.managedFields, by the rules of Kubernetes' server-side apply. Pure.

Fields are the labels, the annotations and all of spec; a list is one field, as for a CRD without further rules.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.joint_inference.errors import FieldConflict
from app.joint_inference.model.resource import API_VERSION
from app.kit.text.json_values import JsonObject

APPLY, UPDATE = "Apply", "Update"
OURS = "modelmill"
BEFORE = "before-first-apply"
"""The owner of everything from before fields had owners."""
KUBECTL, KUBECTL_BEFORE = "kubectl", "kubectl-client-side-apply"
"""One and the same user: `kubectl apply` with and without --server-side."""
MAX_MANAGER = 128
Path = tuple[str, ...]
Fields = dict[Path, Any]


@dataclass(frozen=True)
class Manager:
    """A program or person that sets fields of a resource."""

    name: str = OURS
    operation: str = UPDATE
    """Apply states what the manager wants, Update changes what exists."""


@dataclass(frozen=True)
class OwnedFields:
    """What one manager owns."""

    manager: Manager
    paths: frozenset[Path]
    at: str
    """When its last change was."""


def record_update(
    managed: Sequence[Any], before: Mapping[str, Any] | None, after: Mapping[str, Any], by: Manager, at: str
) -> list[Any]:
    """Returns managedFields after a manager has changed `before` to `after`: what was changed is theirs, what is gone
    is nobody's.

    Args:
        managed: the list before, as in the resource.
        before: None for a new resource.
        at: text in ISO 8601.
    """
    old, new = fields_of(before or {}), fields_of(after)
    changed = {path for path, value in new.items() if path not in old or old[path] != value}
    shares = _list_owners(managed, old, at)
    unchanged = frozenset(new.keys() - changed)
    remaining = [
        OwnedFields(entry.manager, entry.paths & unchanged, entry.at) for entry in shares if entry.manager != by
    ]
    mine = next((entry.paths for entry in shares if entry.manager == by), frozenset())
    return _write_owners([*remaining, OwnedFields(by, frozenset((mine & unchanged) | changed), at)], shares)


def merge_apply(
    managed: Sequence[Any], live: Mapping[str, Any], intended: Mapping[str, Any], by: Manager, at: str, *, force: bool
) -> tuple[JsonObject, list[Any]]:
    """live with what `by` wants, without what they wanted before and do not any more, and its managedFields.

    Args:
        force: fields that others have set otherwise become theirs.

    Raises:
        FieldConflict: Others have set fields otherwise, and `force` is false.
    """
    old, new = fields_of(live), fields_of(intended)
    shares = _list_owners(managed, old, at)
    others = [entry for entry in shares if entry.manager != by]
    claimed = {path for path, value in new.items() if path not in old or old[path] != value}
    conflicts = [
        (entry.manager.name, path)
        for entry in others
        if (by.name, entry.manager.name) != (KUBECTL, KUBECTL_BEFORE)
        for path in sorted(entry.paths & claimed)
    ]
    if conflicts and not force:
        raise _describe_conflict(conflicts)
    mine = next((entry.paths for entry in shares if entry.manager == by), frozenset())
    owned = frozenset().union(*(entry.paths for entry in others))
    result = {path: value for path, value in old.items() if path not in mine - new.keys() - owned} | new
    remaining = [OwnedFields(entry.manager, entry.paths - claimed, entry.at) for entry in others]
    return _select_nested(live, result), _write_owners([*remaining, OwnedFields(by, frozenset(new), at)], shares)


def check_status(live: Mapping[str, Any], intended: Mapping[str, Any], *, force: bool) -> None:
    """Checks a status: all of it belongs to the controller, which writes it again at its next check.

    Raises:
        FieldConflict: A field would be changed.
    """
    old = dict(_iterate_leaves(live, ("status",)))
    conflicts = [
        (OURS, path) for path, value in _iterate_leaves(intended, ("status",)) if old.get(path, value) != value
    ]
    if conflicts and not force:
        raise _describe_conflict(conflicts)


def fields_of(resource: Mapping[str, Any]) -> Fields:
    metadata = resource.get("metadata")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    fields: Fields = {}
    for key in ("labels", "annotations"):
        fields.update(_iterate_leaves(metadata.get(key) or {}, ("metadata", key)))
    fields.update(_iterate_leaves(resource.get("spec") or {}, ("spec",)))
    return fields


def _iterate_leaves(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    if not isinstance(value, Mapping):
        yield path, value
        return
    for key, inner in value.items():
        yield from _iterate_leaves(inner, (*path, str(key)))


def _select_nested(live: Mapping[str, Any], fields: Fields) -> JsonObject:
    rest = {key: value for key, value in live["metadata"].items() if key not in ("labels", "annotations")}
    resource: JsonObject = {**live, "metadata": rest, "spec": {}}
    for path, value in fields.items():
        node = resource
        for key in path[:-1]:
            inner = node.get(key)
            node[key] = inner if isinstance(inner, dict) else {}
            node = node[key]
        node[path[-1]] = value
    return resource


def _list_owners(managed: Sequence[Any], fields: Fields, at: str) -> list[OwnedFields]:
    """Returns the owners; for a service that is older than its owners, everything belongs to whoever was there
    before."""
    if not managed and fields:
        return [OwnedFields(Manager(BEFORE), frozenset(fields), at)]
    return [
        OwnedFields(
            Manager(entry["manager"], entry["operation"]),
            frozenset(_iterate_paths(entry["fieldsV1"], ())),
            entry["time"],
        )
        for entry in managed
    ]


def _write_owners(shares: Sequence[OwnedFields], before: Sequence[OwnedFields]) -> list[Any]:
    """Writes the owners: a manager without fields is omitted, and an unchanged share keeps its time."""
    times = {(entry.manager, entry.paths): entry.at for entry in before}
    return [
        {
            "manager": entry.manager.name,
            "operation": entry.manager.operation,
            "apiVersion": API_VERSION,
            "time": times.get((entry.manager, entry.paths), entry.at),
            "fieldsType": "FieldsV1",
            "fieldsV1": _build_tree(entry.paths),
        }
        for entry in shares
        if entry.paths
    ]


def _build_tree(paths: frozenset[Path]) -> JsonObject:
    tree: JsonObject = {}
    for path in sorted(paths):
        node = tree
        for key in path:
            node = node.setdefault(f"f:{key}", {})
    return tree


def _iterate_paths(tree: Mapping[str, Any], path: Path) -> Iterator[Path]:
    for key, inner in tree.items():
        here = (*path, key.removeprefix("f:"))
        if inner:
            yield from _iterate_paths(inner, here)
        else:
            yield here


def _describe_conflict(conflicts: Sequence[tuple[str, Path]]) -> FieldConflict:
    count = len(conflicts)
    message = ", ".join(f'conflict with "{manager}": {_format_path(path)}' for manager, path in conflicts[:20])
    return FieldConflict(
        f"Apply failed with {count} conflict{'s' if count > 1 else ''}: {message}.",
        hint="Leave these fields out, give them the values that they have, or force it.",
        detail={"conflicts": [{"manager": manager, "field": _format_path(path)} for manager, path in conflicts]},
    )


def _format_path(path: Path) -> str:
    return "." + ".".join(path)
