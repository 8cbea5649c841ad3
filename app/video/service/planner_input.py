"""The input of a policy: a job, the resources and the measurements, in the requirement's terms. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, cast

from app.kit.text.json_values import JsonObject, is_number
from app.video.model.dag import Dag
from app.video.model.kinds import Stage, StageKind, Type
from app.video.model.report import Measurement, PlanResult, model_of
from app.video.scheduling.contract import ConstraintInfo, DagInfo, GeneratorInfo, Measured, ResourceInfo, StageFacts
from app.video.scheduling.policy_messages import PlanningInput
from app.video.store import StoredJob

PICTURES = frozenset({Type.IMAGE, Type.CLIP})
_FIGURES = re.compile(r"[a-z_]{1,32}")


def planning_input(
    stored: StoredJob, info: ResourceInfo, rows: Iterable[Measurement], kinds: Mapping[str, StageKind], now: datetime
) -> PlanningInput:
    """What a policy is given to plan a job.

    Args:
        info: the nodes that it may use.
        rows: what was measured of its stages.
        kinds: of stages, by name.
    """
    job = stored.job
    plan = job.plan.to_json() if job.plan else None
    state: JsonObject = {
        **job.memory,
        "last_plan": {key: plan[key] for key in ("video_conf", "flow_mapping")} if plan else None,
        "profile": profile_of(job.stages, rows),
        "now": now.timestamp(),
    }
    constraint = job.constraint
    return PlanningInput(
        policy=job.policy,
        job_uid=job.uid,
        dag=dag_info(job.dag, job.stages, kinds),
        resource_info=info,
        last_plan_res=cast(PlanResult, dict(job.plan_result)) if job.plan_result else None,
        user_constraint=ConstraintInfo(
            delay=(constraint.lo, constraint.hi), quality=constraint.quality, given=dict(constraint.given or {})
        ),
        generator_output=cast(GeneratorInfo, dict(job.generator_output)) if job.generator_output else None,
        state=state,
    )


def dag_info(dag: Dag, stages: Iterable[Stage], kinds: Mapping[str, StageKind]) -> DagInfo:
    by_name = {stage.name: stage for stage in stages}
    written: dict[str, dict[str, str]] = dag.to_json()["input"]
    facts = {}
    for name in dag.stages:
        stage = by_name[name]
        kind = kinds.get(stage.kind)
        inputs = written.get(name, {})
        facts[name] = StageFacts(
            kind=stage.kind,
            n_models=len(stage.variants),
            before=sorted(dag.before[name]),
            pictures=kind is None or any(kind.inputs.get(field) in PICTURES for field in inputs),
        )
    return DagInfo(generator=dag.generator, flow=[dag.generator, *dag.stages], input=written, stages=facts)


def profile_of(stages: Iterable[Stage], rows: Iterable[Measurement]) -> list[Measured]:
    """The measurements that hold for these stages: of the same name and the same models, numbered as the stages number
    their variants."""
    numbers = {
        (stage.name, model_of(variant)): number
        for stage in stages
        for number, variant in reversed(list(enumerate(stage.variants)))
    }
    return [
        Measured(
            node=row.node,
            stage=row.stage,
            model_id=numbers[row.stage, row.model],
            resolution=row.resolution,
            delay_s=row.delay_s,
            bytes=row.bytes,
            quality=row.quality,
        )
        for row in rows
        if (row.stage, row.model) in numbers
    ]


def list_unserved(dag: Dag, info: ResourceInfo) -> list[str]:
    """The stages that no node serves now."""
    served = {name for node in info.values() if node["online"] for name in node["service"]}
    return [name for name in dag.stages if name not in served]


def numbers_only(data: Mapping[str, Any]) -> dict[str, float]:
    """Of what a runner says of its newest frame the numbers, by name."""
    return {
        key: value
        for key, value in list(data.items())[:32]
        if _FIGURES.fullmatch(key) and is_number(value) and -1e15 < value < 1e15
    }
