"""The operator as a process, until it is told to stop."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import kopf

from app.joint_inference.k8s_operator.handlers import registry_of, settings_of
from app.joint_inference.k8s_operator.mirror import Mirror


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
    """As the pod's service account, or as the kubeconfig says."""

    @kopf.on.login(registry=registry, retries=1)
    def log_in(**arguments: Any) -> kopf.ConnectionInfo:
        connection = kopf.login_with_service_account(**arguments) or kopf.login_with_kubeconfig(**arguments)
        if connection is None:
            raise kopf.LoginError("There is neither a service account of a pod nor a kubeconfig.")
        return connection
