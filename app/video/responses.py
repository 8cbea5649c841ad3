"""Jobs and what belongs to them as the JSON API shows them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app.kit.text.json_values import JsonObject
from app.kit.web.http import answer_of
from app.video import schemas, stage_schemas
from app.video.model.job import JobState, VideoJob
from app.video.model.kinds import GENERATORS, RENDERED, STAGE_SPEC, Stage, StageKind, StageSpec
from app.video.scheduling.predictor import Prediction
from app.video.service import DecisionRecord, JobEvent, NodeVideos, SeriesPoint

VIDEO = "/api/v2/video"
JOBS = f"{VIDEO}/jobs"
_SUMMARY = schemas.JobSummary.model_fields.keys() & VideoJob.__dataclass_fields__.keys()
"""What a summary has of a job as it is."""


def place_of(uid: str) -> str:
    return f"{JOBS}/{uid}"


def summary(job: VideoJob) -> schemas.JobSummary:
    return schemas.JobSummary(**_collect_facts(job))


def describe_job(job: VideoJob) -> schemas.JobAnswer:
    return schemas.JobAnswer(
        **_collect_facts(job),
        restart_policy=job.restart_policy,
        realtime=job.realtime,
        dag=job.dag.to_json(),
        stages=[stage.to_json() for stage in job.stages],
        constraint=job.constraint.to_json(),
        plan=job.plan.to_json() if job.plan else None,
        plan_result=describe_result(job),
        generator_output=dict(job.generator_output),
        broadcast=_describe_broadcast(job) if job.broadcast else None,
    )


def results(job: VideoJob) -> schemas.ResultsAnswer:
    return schemas.ResultsAnswer(
        results=[dict(result) for result in job.results],
        plan=job.plan.to_json() if job.plan else None,
        plan_result=describe_result(job),
    )


def events(rows: Sequence[JobEvent]) -> schemas.EventsAnswer:
    return schemas.EventsAnswer(events=list(rows))


def decisions(rows: Sequence[DecisionRecord]) -> schemas.DecisionsAnswer:
    return schemas.DecisionsAnswer(decisions=[answer_of(schemas.DecisionAnswer, decided) for decided in rows])


def series(points: Sequence[SeriesPoint]) -> schemas.SeriesAnswer:
    return schemas.SeriesAnswer(points=[answer_of(schemas.PointAnswer, point) for point in points])


def nodes(offers: Sequence[NodeVideos]) -> stage_schemas.NodesAnswer:
    return stage_schemas.NodesAnswer(
        nodes=[stage_schemas.NodeVideosAnswer.model_validate(offer, from_attributes=True) for offer in offers]
    )


def kinds(by_name: Mapping[str, StageKind]) -> stage_schemas.KindsAnswer:
    return stage_schemas.KindsAnswer(
        kinds=[_describe_kind(kind) for _, kind in sorted(by_name.items())],
        generators={name: _describe_types(kind.outputs) for name, kind in GENERATORS.items()},
        render=_describe_types(RENDERED),
    )


def stage(spec: StageSpec, pinned: Stage, problem: str = "") -> stage_schemas.StageAnswer:
    return stage_schemas.StageAnswer(**STAGE_SPEC.write(spec), variants=pinned.to_json()["variants"], problem=problem)


def predictions(rows: Sequence[Prediction]) -> stage_schemas.WhatIfAnswer:
    return stage_schemas.WhatIfAnswer(predictions=[answer_of(stage_schemas.PredictionAnswer, row) for row in rows])


def describe_result(job: VideoJob) -> JsonObject:
    """The performance of its plan: a PlanResult, also before the first report."""
    return {"delay": {}, **job.plan_result}


def _collect_facts(job: VideoJob) -> JsonObject:
    place = place_of(job.uid)
    return {
        **{name: getattr(job, name) for name in _SUMMARY},
        "delay_s": job.plan_result.get("e2e_p50"),
        "fps": job.plan_result.get("fps"),
        "links": {
            "job": place,
            "results": f"{place}/results",
            "events": f"{place}/events",
            "decisions": f"{place}/decisions",
            "changes": f"{place}/changes",
            "picture": f"{place}/picture",
            "live": f"/user/video/{job.uid}",
            "page": f"/ui/video/{job.uid}",
        },
    }


def _describe_broadcast(job: VideoJob) -> schemas.BroadcastAnswer:
    is_sending = job.broadcast["is_sending"] and job.state is not JobState.DONE
    return schemas.BroadcastAnswer(**{**job.broadcast, "is_sending": is_sending})


def _describe_kind(kind: StageKind) -> stage_schemas.KindAnswer:
    return stage_schemas.KindAnswer(
        name=kind.name,
        inputs=_describe_types(kind.inputs),
        optional=sorted(kind.optional),
        outputs=_describe_types(kind.outputs),
        metric=kind.metric.value,
        models=kind.models,
        parameters=sorted(kind.parameters),
    )


def _describe_types(types: Mapping[str, Any]) -> dict[str, str]:
    return {name: str(type_.value) for name, type_ in types.items()}
