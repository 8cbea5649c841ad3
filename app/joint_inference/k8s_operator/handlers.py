"""The mirror bound to kopf: which events of the cluster call which of its methods. And the operator as a process."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection
from typing import Any

import kopf

from app.joint_inference.k8s_operator.mirror import PREFIX, Mirror, merge_patch
from app.joint_inference.model.resource import GROUP, PLURAL, VERSION
from app.kit.clock import now
from app.kit.errors import ModelmillError

AGAIN_S = 5.0
LOOK_S = 2.0
"""Seconds between comparisons of a service's status with that in the cluster."""
GONE_S = 1.0
RESOURCE = (GROUP, VERSION, PLURAL)


def registry_of(mirror: Mirror, *, look_s: float = LOOK_S) -> kopf.OperatorRegistry:
    """Returns a separate registry without ways to log in."""
    registry = kopf.OperatorRegistry()

    @_retry_conflicts
    def take(body: kopf.Body, **_: Any) -> None:
        if not mirror.take(body, now=now()):
            raise kopf.TemporaryError("One of this name is still being deleted.", delay=AGAIN_S)

    @_retry_conflicts
    def release(body: kopf.Body, **_: Any) -> None:
        if not mirror.release(body, now=now()):
            raise kopf.TemporaryError("Its workers are still being ended.", delay=GONE_S)

    @_retry_conflicts
    def show(body: kopf.Body, patch: kopf.Patch, **_: Any) -> None:
        new_status = mirror.status_for(body, now=now())
        if new_status is not None:
            patch.status.update(merge_patch(body.status, new_status))

    for conn in (kopf.on.create, kopf.on.update, kopf.on.resume):
        conn(*RESOURCE, id="take", registry=registry, backoff=AGAIN_S)(take)
    kopf.on.delete(*RESOURCE, id="release", registry=registry, backoff=AGAIN_S)(release)
    kopf.timer(*RESOURCE, id="show", registry=registry, interval=look_s, backoff=AGAIN_S)(show)
    return registry


def settings_of() -> kopf.OperatorSettings:
    """Returns settings by which kopf adds nothing of its own to the status and writes no events, since the conditions
    are sufficient."""
    settings = kopf.OperatorSettings()
    settings.persistence.finalizer = f"{PREFIX}/workers"
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=PREFIX)
    settings.persistence.diffbase_storage = kopf.AnnotationsDiffBaseStorage(prefix=PREFIX)
    settings.posting.enabled = False
    settings.peering.standalone = True
    return settings


def _retry_conflicts(handler: Callable[..., None]) -> Callable[..., None]:
    """Retries what the store refuses now, because it is unreachable or something else changed the service."""

    @functools.wraps(handler)
    def handled(**arguments: Any) -> None:
        try:
            handler(**arguments)
        except ModelmillError as error:
            raise kopf.TemporaryError(error.message, delay=AGAIN_S) from error

    return handled


def run(mirror: Mirror, *, namespaces: Collection[str] = (), liveness: str | None = None) -> None:
    """Run the services of the cluster here.

    Args:
        mirror: what takes them in.
        namespaces: of the cluster; none: all.
        liveness: URL where probes are answered; None: nowhere.
    """
    registry = registry_of(mirror)
    _log_in(registry)
    kopf.configure(verbose=False)
    kopf.run(
        registry=registry,
        settings=settings_of(),
        standalone=True,
        clusterwide=not namespaces,
        namespaces=namespaces,
        liveness_endpoint=liveness,
    )


def _log_in(registry: kopf.OperatorRegistry) -> None:
    """Logs in with the pod's service account, or with the kubeconfig."""

    @kopf.on.login(registry=registry, retries=1)
    def log_in(**arguments: Any) -> kopf.ConnectionInfo:
        connection = kopf.login_with_service_account(**arguments) or kopf.login_with_kubeconfig(**arguments)
        if connection is None:
            raise kopf.LoginError("There is neither a service account of a pod nor a kubeconfig.")
        return connection
