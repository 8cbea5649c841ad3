"""The JointInferenceService: its names, and its specification once it has been validated. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

GROUP = "neptune.io"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
KIND = "JointInferenceService"
LIST_KIND = f"{KIND}List"
PLURAL = "jointinferenceservices"
SINGULAR = "jointinferenceservice"
SHORT_NAMES = ("jointinferenceservice", "jis")


class Role(StrEnum):
    """Which of the two workers. Also the `part` of its orders."""

    EDGE = "edge"
    CLOUD = "cloud"


@dataclass(frozen=True)
class Worker:
    """parameters: of its workerSpec; of a key given twice the last value. script_dir empty: the bundled worker."""

    role: Role
    name: str
    model: str
    node: str
    script_dir: str = ""
    script_boot_file: str = ""
    framework_type: str = ""
    framework_version: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_builtin(self) -> bool:
        return not self.script_dir


@dataclass(frozen=True)
class Specification:
    """hard_example: name of the algorithm; its parameters are those of the edge worker, overridden by its own."""

    edge: Worker
    cloud: Worker
    hard_example: str
    hard_example_parameters: Mapping[str, str]

    def worker(self, role: Role) -> Worker:
        return self.edge if role is Role.EDGE else self.cloud


@dataclass(frozen=True)
class Service:
    """A JointInferenceService as it is stored. spec, status: as the resource has them, JSON.

    generation: rises with each change of spec. version: rises with each change at all, over all services: the
    resourceVersion. deleted_at: its deletion was asked for, its workers are being ended; gone_at: they are.
    secret: what the edge worker shows the big model. reported: the last taskInfo, with when it was taken.
    """

    uid: str
    owner: str
    namespace: str
    name: str
    generation: int
    version: int
    created_at: str
    spec: Mapping[str, Any]
    status: Mapping[str, Any]
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    deleted_at: str | None = None
    gone_at: str | None = None
    secret: str = ""
    reported: Mapping[str, Any] = field(default_factory=dict)
    managed: Sequence[Any] = ()
    """metadata.managedFields; empty: of a time when fields had no owners."""

    @property
    def specification(self) -> Specification:
        return specification_of(self.spec)

    def to_resource(self) -> dict[str, Any]:
        """As the Kubernetes API shows it."""
        metadata: dict[str, Any] = {
            "name": self.name,
            "namespace": self.namespace,
            "uid": self.uid,
            "generation": self.generation,
            "resourceVersion": str(self.version),
            "creationTimestamp": _seconds(self.created_at),
        }
        if self.labels:
            metadata["labels"] = dict(self.labels)
        if self.annotations:
            metadata["annotations"] = dict(self.annotations)
        if self.managed:
            metadata["managedFields"] = list(self.managed)
        if self.deleted_at:
            metadata["deletionTimestamp"] = _seconds(self.deleted_at)
        return {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": metadata,
            "spec": dict(self.spec),
            "status": dict(self.status),
        }


def specification_of(spec: Mapping[str, Any]) -> Specification:
    """Of a spec that has been validated against the CRD's schema."""
    algorithm = spec["edgeWorker"]["hardExampleAlgorithm"]
    edge, cloud = _worker(Role.EDGE, spec["edgeWorker"]), _worker(Role.CLOUD, spec["cloudWorker"])
    own = _parameters(algorithm.get("parameters", ()))
    return Specification(edge, cloud, algorithm["name"], {**edge.parameters, **own})


def _worker(role: Role, worker: Mapping[str, Any]) -> Worker:
    found = worker["workerSpec"]
    return Worker(
        role=role,
        name=worker["name"],
        model=worker["model"]["name"],
        node=worker["nodeName"],
        script_dir=found["scriptDir"],
        script_boot_file=found["scriptBootFile"],
        framework_type=found["frameworkType"],
        framework_version=found["frameworkVersion"],
        parameters=_parameters(found.get("parameters", ())),
    )


def _parameters(pairs: Any) -> dict[str, str]:
    return {pair["key"]: pair["value"] for pair in pairs or ()}


def _seconds(text: str) -> str:
    """Kubernetes' times have whole seconds."""
    return text[:19] + "Z"
