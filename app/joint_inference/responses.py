"""Services as the JSON API shows them. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from app.inference.model_card import ModelCard, version_on
from app.joint_inference import schemas
from app.joint_inference.metadata import NAME_PATTERN, NAMESPACE_PATTERN
from app.joint_inference.model.fleet import task_info_of
from app.joint_inference.model.resource import Role, Service, Worker
from app.joint_inference.model.rollout import Rollout
from app.joint_inference.model.status import current_of
from app.joint_inference.model.tally import Sample
from app.joint_inference.service import ServiceEvent, WorkerView
from app.joint_inference.service.rollouts import rollout_of
from app.kit.text.json_values import JsonObject
from app.kit.web.http import answer_of
from app.kit.web.operations import OpenApiSchema
from app.nodes.model import WORKER_REPORT

SERVICES = "/api/v2/services"
NAMED: dict[str, OpenApiSchema] = {
    "namespace": {"type": "string", "pattern": NAMESPACE_PATTERN},
    "name": {"type": "string", "pattern": NAME_PATTERN},
}
"""The path parameters that name a service."""


def place_of(service: Service) -> str:
    return f"{SERVICES}/{service.namespace}/{service.name}"


def summary(service: Service) -> schemas.ServiceSummary:
    current = current_of(service.status) or {}
    specification = service.specification
    return answer_of(
        schemas.ServiceSummary,
        service,
        state=current.get("type", ""),
        reason=current.get("reason", ""),
        message=current.get("message", ""),
        since=current.get("lastTransitionTime") or service.created_at,
        active=service.status.get("active", 0),
        failed=service.status.get("failed", 0),
        metrics={metric["key"]: metric["value"] for metric in service.status.get("metrics", ())},
        edge=_describe_worker(specification.edge),
        cloud=_describe_worker(specification.cloud),
        is_deleting=service.deleted_at is not None,
    )


def describe_service(
    service: Service, workers: Sequence[WorkerView], warnings: Sequence[str] = ()
) -> schemas.ServiceAnswer:
    location = place_of(service)
    return schemas.ServiceAnswer(
        resource=schemas.Resource(service.to_resource()),
        workers=[_describe_worker_state(view) for view in workers],
        reported=task_info_of(service.reported) if service.specification.edge.selector else dict(service.reported),
        rollout=_describe_rollout(rollout_of(service)),
        warnings=list(warnings),
        links={
            "service": location,
            "events": f"{location}/events",
            "samples": f"{location}/samples",
            "rows": f"{location}/rows",
            "sinks": f"{location}/sinks",
            "page": f"/ui/services/{service.namespace}/{service.name}",
        },
    )


def samples(service: Service, items: Sequence[Sample]) -> schemas.SamplesAnswer:
    location = place_of(service)
    return schemas.SamplesAnswer(
        samples=[{**sample.to_json(), "picture": f"{location}/samples/{sample.id}"} for sample in items]
    )


def event(record: ServiceEvent) -> schemas.EventAnswer:
    return schemas.EventAnswer(**vars(record))


def _describe_rollout(rollout: Rollout | None) -> schemas.RolloutAnswer | None:
    if rollout is None:
        return None
    return answer_of(
        schemas.RolloutAnswer,
        rollout,
        former=_describe_version(rollout.former),
        target=_describe_version(rollout.target),
        wave=rollout.wave + 1 if rollout.nodes else 0,
    )


def _describe_version(card: ModelCard) -> schemas.VersionAnswer:
    model, version = version_on(card.name)
    return schemas.VersionAnswer(model=model, version=version, sha256=card.sha256)


def _describe_worker(worker: Worker) -> dict[str, str]:
    """Its node; labels of nodes where it has several."""
    return {"name": worker.name, "node": worker.place, "model": worker.model}


def _describe_worker_state(view: WorkerView) -> JsonObject:
    report = view.report
    shown: JsonObject = {
        "role": Role(view.role).value,
        "node": view.node,
        "is_online": view.is_online,
        "wanted": {"model": view.model, "version": view.version, "sha256": view.sha256},
        "runs": view.runs,
        "reported": task_info_of(view.reported),
    }
    if report is None:
        return {**shown, "name": view.name, "state": None}
    facts = WORKER_REPORT.write(report)
    left_out = ("key", "namespace", "owner_name")
    return {**shown, **{name: value for name, value in facts.items() if name not in left_out}}
