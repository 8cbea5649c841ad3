"""The content of an order: what a node runs for one worker of a service. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from app.inference.model_card import MODEL_CARD, ModelCard
from app.joint_inference.model.resource import Role, Service, Specification, Worker, specification_of
from app.kit.text.json_values import JsonObject


@dataclass(frozen=True)
class BigModel:
    """The address of the big model, for an edge worker."""

    url: str
    """http://host:port of the cloud worker."""
    secret: str
    """Its bearer token."""


@dataclass(frozen=True)
class OrderContent:
    """What one worker has to be."""

    role: Role
    resource: Mapping[str, Any]
    """The whole resource, in the form of the requirement's insert."""
    model: ModelCard
    secret: str = ""
    """The bearer token that a cloud worker requires."""
    big_model: BigModel | None = None
    """For an edge worker."""
    withheld: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Cameras of the node that the service's user may not use: {"videos": ids, "sources": patterns}."""
    former: ModelCard | None = None
    """For an edge worker: the model with which it compares its own."""

    @property
    def specification(self) -> Specification:
        return specification_of(self.resource["spec"])

    @property
    def worker(self) -> Worker:
        return self.specification.worker(self.role)

    def to_json(self) -> JsonObject:
        return {
            "role": self.role.value,
            "resource": dict(self.resource),
            "model": MODEL_CARD.write(self.model),
            "secret": self.secret,
            "bigModel": vars(self.big_model) if self.big_model else None,
            **({"former": MODEL_CARD.write(self.former)} if self.former else {}),
            **({"withheld": dict(self.withheld)} if any(self.withheld.values()) else {}),
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> OrderContent:
        """Reads the result of to_json.

        Raises:
            KeyError, TypeError, ValueError: It is something else.
        """
        big, former = data.get("bigModel"), data.get("former")
        return OrderContent(
            Role(data["role"]),
            data["resource"],
            MODEL_CARD.read(data["model"]),
            data.get("secret", ""),
            BigModel(**big) if big else None,
            data.get("withheld") or {},
            MODEL_CARD.read(former) if former else None,
        )


def resource_for_node(service: Service) -> JsonObject:
    """Returns the resource without what changes all the time, since an order is sent again when its content differs,
    and without what no node uses."""
    whole = service.to_resource()
    metadata = {name: whole["metadata"][name] for name in ("name", "namespace", "uid", "generation")}
    edge = {key: value for key, value in whole["spec"]["edgeWorker"].items() if key != "rollout"}
    spec = {**whole["spec"], "edgeWorker": edge}
    return {"apiVersion": whole["apiVersion"], "kind": whole["kind"], "metadata": metadata, "spec": spec}


__all__ = ["BigModel", "OrderContent", "resource_for_node"]
