"""The JointInferenceService: its names, and its specification once it has been validated. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from app.kit.text.json_values import JsonObject
from app.kit.text.labels import text_of

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
    """One worker of a service, as in its spec."""

    role: Role
    name: str
    model: str
    """The name of its model."""
    node: str
    """The name of its node; empty if a selector selects its nodes."""
    script_dir: str = ""
    """Empty for the bundled worker."""
    script_boot_file: str = ""
    framework_version: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """From its workerSpec; a repeated key has its last value."""
    selector: Mapping[str, str] = field(default_factory=dict)
    """The labels of the nodes on which it runs, instead of a node's name."""

    @property
    def is_builtin(self) -> bool:
        return not self.script_dir

    @property
    def place(self) -> str:
        """Describes its node, or the labels of its nodes."""
        return self.node or text_of(self.selector)


@dataclass(frozen=True)
class Specification:
    """A validated spec."""

    edge: Worker
    cloud: Worker
    hard_example: str
    """The name of the algorithm."""
    hard_example_parameters: Mapping[str, str]
    """Those of the edge worker, with the algorithm's own taking precedence."""

    def worker(self, role: Role) -> Worker:
        return self.edge if role is Role.EDGE else self.cloud


@dataclass(frozen=True)
class Service:
    """A JointInferenceService as it is stored."""

    uid: str
    owner: str
    namespace: str
    name: str
    generation: int
    """Increases with each change of the spec."""
    version: int
    """The resourceVersion, which increases with each change of any service."""
    created_at: str
    spec: Mapping[str, Any]
    """As the resource has it, JSON."""
    status: Mapping[str, Any]
    """As the resource has it, JSON."""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    deleted_at: str | None = None
    """When its deletion was requested, after which its workers are ended."""
    gone_at: str | None = None
    """When its workers had ended."""
    secret: str = ""
    """The edge worker's secret for the big model."""
    reported: Mapping[str, Any] = field(default_factory=dict)
    """The last taskInfo, with its phase."""
    managed: Sequence[Any] = ()
    """metadata.managedFields; empty for a service that is older than field ownership."""
    rollout: Mapping[str, Any] = field(default_factory=dict)
    """See ROLLOUT; empty: a new model goes to all nodes at once."""

    @property
    def specification(self) -> Specification:
        return specification_of(self.spec)

    def to_resource(self) -> JsonObject:
        """Returns the resource as in the Kubernetes API."""
        metadata: JsonObject = {
            "name": self.name,
            "namespace": self.namespace,
            "uid": self.uid,
            "generation": self.generation,
            "resourceVersion": str(self.version),
            "creationTimestamp": _truncate_to_seconds(self.created_at),
        }
        if self.labels:
            metadata["labels"] = dict(self.labels)
        if self.annotations:
            metadata["annotations"] = dict(self.annotations)
        if self.managed:
            metadata["managedFields"] = list(self.managed)
        if self.deleted_at:
            metadata["deletionTimestamp"] = _truncate_to_seconds(self.deleted_at)
        return {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": metadata,
            "spec": dict(self.spec),
            "status": dict(self.status),
        }


CLASSES = "classes"
"""The parameter with the classes that count: the edge worker's value also applies to a cloud worker without one."""


def specification_of(spec: Mapping[str, Any]) -> Specification:
    """Reads a spec that was validated against the CRD's schema."""
    algorithm = spec["edgeWorker"]["hardExampleAlgorithm"]
    edge, cloud = _make_worker(Role.EDGE, spec["edgeWorker"]), _make_worker(Role.CLOUD, spec["cloudWorker"])
    if CLASSES in edge.parameters and CLASSES not in cloud.parameters:
        cloud = replace(cloud, parameters={**cloud.parameters, CLASSES: edge.parameters[CLASSES]})
    own = _read_parameters(algorithm.get("parameters", ()))
    return Specification(edge, cloud, algorithm["name"], {**edge.parameters, **own})


def _make_worker(role: Role, worker: Mapping[str, Any]) -> Worker:
    spec = worker["workerSpec"]
    return Worker(
        role=role,
        name=worker["name"],
        model=worker["model"]["name"],
        node=worker.get("nodeName", ""),
        script_dir=spec["scriptDir"],
        script_boot_file=spec["scriptBootFile"],
        framework_version=spec["frameworkVersion"],
        parameters=_read_parameters(spec.get("parameters", ())),
        selector=worker.get("nodeSelector") or {},
    )


def _read_parameters(pairs: Any) -> dict[str, str]:
    return {pair["key"]: pair["value"] for pair in pairs or ()}


def _truncate_to_seconds(text: str) -> str:
    """Shortens a time to whole seconds, as Kubernetes has them."""
    return text[:19] + "Z"
