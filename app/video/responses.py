"""Jobs and what belongs to them as the JSON API shows them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app.video import schemas
from app.video.model.job import VideoJob
from app.video.model.kinds import GENERATORS, RENDERED, Stage, StageKind, StageSpec
from app.video.scheduling.predictor import Prediction
from app.video.service import Decided, JobEvent, NodeVideos, Point

VIDEO = "/api/v2/video"
JOBS = f"{VIDEO}/jobs"


def place_of(uid: str) -> str:
    return f"{JOBS}/{uid}"


def summary(job: VideoJob) -> schemas.JobSummary:
    return schemas.JobSummary(**_facts(job))


def whole(job: VideoJob) -> schemas.JobAnswer:
    return schemas.JobAnswer(
        **_facts(job),
        dag=job.dag.to_json(),
        stages=[stage.to_json() for stage in job.stages],
        constraint=job.constraint.to_json(),
        restart_policy=job.restart_policy,
        realtime=job.realtime,
        plan=job.plan.to_json() if job.plan else None,
        plan_result=dict(job.plan_result),
    )


def results(job: VideoJob) -> schemas.ResultsAnswer:
    return schemas.ResultsAnswer(
        results=[dict(result) for result in job.results],
        plan=job.plan.to_json() if job.plan else None,
        plan_result=dict(job.plan_result),
    )


def events(found: Sequence[JobEvent]) -> schemas.EventsAnswer:
    return schemas.EventsAnswer(events=[dict(vars(event)) for event in found])


def decisions(found: Sequence[Decided]) -> schemas.DecisionsAnswer:
    return schemas.DecisionsAnswer(decisions=[dict(vars(decided)) for decided in found])


def series(found: Sequence[Point]) -> schemas.SeriesAnswer:
    return schemas.SeriesAnswer(points=[dict(vars(point)) for point in found])


def nodes(found: Sequence[NodeVideos]) -> schemas.NodesAnswer:
    return schemas.NodesAnswer(
        nodes=[
            schemas.NodeVideosAnswer(**{**vars(one), "videos": {key: dict(what) for key, what in one.videos.items()}})
            for one in found
        ]
    )


def kinds(found: Mapping[str, StageKind]) -> schemas.KindsAnswer:
    return schemas.KindsAnswer(
        kinds=[_kind(kind) for _, kind in sorted(found.items())],
        generators={name: _types(kind.outputs) for name, kind in GENERATORS.items()},
        render=_types(RENDERED),
    )


def stage(spec: StageSpec, pinned: Stage) -> schemas.StageAnswer:
    return schemas.StageAnswer(
        name=spec.name,
        kind=spec.kind,
        models=[list(names) for names in spec.models],
        parameters=dict(spec.parameters),
        variants=pinned.to_json()["variants"],
    )


def predictions(found: Sequence[Prediction]) -> schemas.WhatIfAnswer:
    return schemas.WhatIfAnswer(predictions=[prediction(one) for one in found])


def prediction(found: Prediction) -> dict[str, Any]:
    return {
        **vars(found),
        "video_conf": found.video_conf.to_json(),
        "by_stage": dict(found.by_stage),
        "flow_mapping": {name: dict(place) for name, place in found.flow_mapping.items()},
    }


def _facts(job: VideoJob) -> dict[str, Any]:
    place = place_of(job.uid)
    return {
        "uid": job.uid,
        "node": job.node,
        "video_id": job.video_id,
        "mode": job.mode,
        "state": job.state,
        "ending": job.ending,
        "reason": job.reason,
        "policy": job.policy,
        "flags": list(job.flags),
        "no_signal_since": job.no_signal_since,
        "n_loop": job.n_loop,
        "progress": job.progress,
        "created_at": job.created_at,
        "ended_at": job.ended_at,
        "reported_at": job.reported_at,
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


def _kind(kind: StageKind) -> schemas.KindAnswer:
    return schemas.KindAnswer(
        name=kind.name,
        inputs=_types(kind.inputs),
        optional=sorted(kind.optional),
        outputs=_types(kind.outputs),
        metric=kind.metric.value,
        models=kind.models,
        parameters=sorted(kind.parameters),
    )


def _types(found: Mapping[str, Any]) -> dict[str, str]:
    return {name: str(of.value) for name, of in found.items()}
