"""Creates and changes services, within the caller's transaction."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection

from app.joint_inference import store
from app.joint_inference.errors import ServiceChanged
from app.joint_inference.model.field_ownership import Manager, record_update
from app.joint_inference.model.resource import Service
from app.joint_inference.model.status import Condition, ConditionType, Reason, conditions_after
from app.kit.errors import BadInput
from app.kit.sql import new_secret
from app.kit.text.json_values import JsonObject
from app.kit.text.merge_patch import merge_patch


def new_service(user: str, fit: Mapping[str, Any], at: str, by: Manager) -> Service:
    """A service as it is first stored: accepted, and waiting for the controller.

    Args:
        fit: the validated resource.
        at: text in ISO 8601.
        by: owns its fields.
    """
    metadata = fit["metadata"]
    accepted = Condition(ConditionType.PENDING, Reason.ACCEPTED, "It will be considered in a moment.")
    return Service(
        uid=str(uuid.uuid4()),
        owner=user,
        namespace=metadata["namespace"],
        name=metadata["name"],
        generation=1,
        version=0,
        created_at=at,
        spec=fit["spec"],
        status={"conditions": conditions_after((), accepted, None, at), "active": 0, "failed": 0},
        labels=metadata.get("labels") or {},
        annotations=metadata.get("annotations") or {},
        secret=new_secret(),
        managed=record_update((), None, fit, by, at),
    )


def patched(resource: JsonObject, patch: Any) -> Any:
    """Returns a resource after a JSON merge patch, which applies to any version if it names none."""
    metadata = patch.get("metadata") if isinstance(patch, dict) else None
    names_version = isinstance(metadata, dict) and metadata.get("resourceVersion")
    after = merge_patch(resource, patch)
    return after if names_version else merge_patch(after, {"metadata": {"resourceVersion": None}})


def replace_service(
    conn: Connection,
    service: Service,
    fit: Mapping[str, Any],
    at: str,
    by: Manager,
    managed: Sequence[Any] | None = None,
) -> Service:
    """Nothing but what is different changes: the same again keeps its version.

    Args:
        managed: who owns what then, where that is known already.

    Raises:
        ServiceChanged: It is not the version that the resource names, or another change was faster.
    """
    metadata = fit["metadata"]
    expected_version = metadata.get("resourceVersion")
    if expected_version and str(expected_version) != str(service.version):
        raise make_conflict(service)
    fields: dict[str, Any] = {
        "labels": metadata.get("labels") or {},
        "annotations": metadata.get("annotations") or {},
        "managed": record_update(service.managed, service.to_resource(), fit, by, at) if managed is None else managed,
    }
    if fit["spec"] != service.spec:
        fields |= {"spec": fit["spec"], "generation": service.generation + 1}
    if all(getattr(service, name) == value for name, value in fields.items()):
        return service
    changed = store.change_service(conn, service, **fields)
    if changed is None:
        raise make_conflict(service)
    if changed.generation != service.generation:
        store.add_event(conn, service.uid, at, type="Changed", reason="SpecChanged", message=f"#{changed.generation}")
    return changed


def make_conflict(service: Service) -> ServiceChanged:
    return ServiceChanged(
        f"The service {service.name!r} has been changed meanwhile; its version is {service.version}.",
        hint="Read it again, and make your change in that.",
    )


def of_this_name(fit: JsonObject, name: str) -> JsonObject:
    if fit["metadata"]["name"] != name:
        raise BadInput(
            f"The name in the path is {name!r}, the one in the resource {fit['metadata']['name']!r}.",
            hint="A service cannot be renamed: make a new one.",
            detail={"path": "$.metadata.name"},
        )
    return fit


def terminating(service: Service, at: str) -> JsonObject:
    ending = Condition(ConditionType.PENDING, Reason.TERMINATING, "Its workers are being ended.")
    conditions = conditions_after(service.status.get("conditions", ()), ending, None, at)
    return {"deleted_at": at, "status": {**service.status, "conditions": conditions}}
