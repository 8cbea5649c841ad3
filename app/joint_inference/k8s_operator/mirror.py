"""Mirrors the cluster's resources as services of one user, and their status back to the cluster.

Depends on neither kopf nor HTTP: resources are the cluster's JSON.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from app.joint_inference.errors import InvalidResource, ServiceNotFound
from app.joint_inference.model.resource import Service
from app.joint_inference.model.status import Condition, ConditionType, conditions_after
from app.joint_inference.service.model_pairs import ModelsUnfit
from app.joint_inference.service.services import Services
from app.kit.clock import to_text
from app.kit.text.json_values import JsonObject

INVALID = "InvalidResource"
PREFIX = "modelmill.neptune.io"
"""Prefix of the operator's own annotations on a resource."""
NOT_OURS = (f"{PREFIX}/", "kopf.zalando.org/", "kopf.dev/", "kubectl.kubernetes.io/")
"""Prefixes of annotations that tools keep for themselves, and that change without a change of the service."""
HEARTBEAT = timedelta(seconds=60)
"""Interval at which a status is written if only its heartbeat has changed: each write wakes all watchers."""
Json = Mapping[str, Any]


@dataclass(frozen=True)
class Refusal:
    """Why this generation of a resource is not accepted."""

    generation: int
    message: str
    reason: str = INVALID
    may_pass: bool = False
    """True if the same resource may be accepted later: it is tried again at each comparison."""


class Mirror:
    """Mirrors resources. Thread-safe: the creation and the state of a service are checked together.

    Args:
        user: owner of the services.
    """

    def __init__(self, services: Services, user: str) -> None:
        self._services = services
        self._user = user
        self._refused: dict[str, Refusal] = {}
        self._lock = threading.RLock()

    def take(self, resource: Json, *, now: datetime) -> bool:
        """Creates or changes the service. An invalid one is remembered, and shown in its status.

        Returns:
            False if a service of this name is still being deleted.
        """
        uid = str(resource["metadata"]["uid"])
        with self._lock:
            existing = self._find(resource)
            if existing is not None and existing.deleted_at is not None:
                return False
            try:
                self._services.apply(self._user, without_theirs(resource), now=now)
            except ModelsUnfit as error:
                self._refused[uid] = Refusal(_read_generation(resource), error.message, error.reason, may_pass=True)
            except InvalidResource as error:
                self._refused[uid] = Refusal(_read_generation(resource), error.message)
            else:
                self._refused.pop(uid, None)
            return True

    def release(self, resource: Json, *, now: datetime) -> bool:
        """Deletes the service.

        Returns:
            True if it is gone, and its workers have ended.
        """
        self._refused.pop(str(resource["metadata"]["uid"]), None)
        try:
            self._services.delete(self._user, *_name(resource), now=now)
        except ServiceNotFound:
            return True
        return self._find(resource) is None

    def status_for(self, resource: Json, *, now: datetime) -> JsonObject | None:
        """Returns what its status should be; None if it is up to date. A service that was deleted here while the
        cluster still has it is created again."""
        before: Json = resource.get("status") or {}
        refusal = self._find_refusal(resource)
        if refusal is None or refusal.may_pass:
            with self._lock:
                if refusal is not None or self._find(resource) is None:
                    self.take(resource, now=now)
                refusal = self._find_refusal(resource)
        service = self._find(resource)
        status = dict(service.status) if service is not None else {}
        if refusal is not None:
            status = _refuse_status(status, before, refusal, to_text(now))
        return status if is_news(before, status) else None

    def _find_refusal(self, resource: Json) -> Refusal | None:
        """Returns the refusal of this generation, if there is one."""
        refusal = self._refused.get(str(resource["metadata"]["uid"]))
        return refusal if refusal is not None and refusal.generation == _read_generation(resource) else None

    def _find(self, resource: Json) -> Service | None:
        try:
            return self._services.get(self._user, *_name(resource))
        except ServiceNotFound:
            return None


def without_theirs(resource: Json) -> JsonObject:
    """Returns the user's part of a resource, without the cluster's uid, versions, finalizers and its tools'
    annotations."""
    metadata = resource["metadata"]
    own_metadata = {key: metadata[key] for key in ("name", "namespace", "labels") if metadata.get(key)}
    annotations = {
        key: value for key, value in (metadata.get("annotations") or {}).items() if not key.startswith(NOT_OURS)
    }
    if annotations:
        own_metadata["annotations"] = annotations
    own = {key: resource[key] for key in ("apiVersion", "kind", "spec") if key in resource}
    return {**own, "metadata": own_metadata}


def is_news(before: Json, status: Json) -> bool:
    """Returns whether the status should be written; a heartbeat alone only after some time."""
    if not status:
        return False
    if _keep_status(before) != _keep_status(status):
        return True
    shown, former = _read_heartbeat(status), _read_heartbeat(before)
    return shown is not None and former is not None and shown - former >= HEARTBEAT


def merge_patch(before: Json, status: Json) -> JsonObject:
    """Returns a JSON merge patch; what no longer exists becomes null."""
    return {**dict.fromkeys(set(before) - set(status)), **status}


def _refuse_status(service: Json, before: Json, refusal: Refusal, now: str) -> JsonObject:
    """Returns the status of the service that continues as before, if there is one, with the refusal as its current
    condition."""
    goes_on = " The service goes on as it was before." if service else ""
    condition = Condition(ConditionType.FAILED, refusal.reason, f"{refusal.message}{goes_on}")
    conditions = conditions_after(before.get("conditions") or (), condition, None, now)
    return {"active": 0, "failed": 0, **service, "conditions": conditions}


def _keep_status(status: Json) -> JsonObject:
    conditions = [
        {key: value for key, value in entry.items() if key != "lastHeartbeatTime"}
        for entry in status.get("conditions") or ()
    ]
    return {**status, "conditions": conditions}


def _read_heartbeat(status: Json) -> datetime | None:
    conditions = status.get("conditions") or ()
    heartbeat = conditions[-1].get("lastHeartbeatTime") if conditions else None
    return datetime.fromisoformat(heartbeat) if heartbeat else None


def _read_generation(resource: Json) -> int:
    return int(resource["metadata"].get("generation") or 0)


def _name(resource: Json) -> tuple[str, str]:
    return str(resource["metadata"]["namespace"]), str(resource["metadata"]["name"])
