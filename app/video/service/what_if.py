"""What would be, if: a user's question to the planner, from JSON to predictions."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, cast

from app.kit.errors import BadRequest
from app.video import store
from app.video.model.constraint import Constraint
from app.video.model.dag import check_types, read_dag
from app.video.model.job import RestartPolicy, VideoJob
from app.video.model.plan import MODEL_IDS, VideoConf, read_video_conf
from app.video.model.reader import Reader
from app.video.scheduling.contract import NodeInfo, ResourceInfo
from app.video.scheduling.predictor import Prediction, cuts
from app.video.service.jobs import Jobs
from app.video.service.planner_input import dag_info, profile_of
from app.video.service.resources import Resources

KEYS = ("job_uid", "node", "video_id", "dag", "nodes", "video_conf", "model_id")
FIGURES = ("up_mbps", "down_mbps", "cpu_ratio", "online")
_READER = Reader(BadRequest)


def predictions(
    jobs: Jobs, resources: Resources, user: str, body: Mapping[str, Any], now: datetime
) -> list[Prediction]:
    """See Planning.what_if."""
    given = _READER.mapping(body, "body", most=len(KEYS))
    _READER.known(given, "body", KEYS)
    job = _job(jobs, user, given, now)
    if given.get("video_conf") is not None:
        conf = read_video_conf(given["video_conf"])
    else:
        conf = job.plan.video_conf if job.plan else VideoConf()
    model_id = _READER.whole(given.get("model_id") or 0, "model_id", least=MODEL_IDS[0], most=MODEL_IDS[-1])
    info = changed(resources.info(job, now), given.get("nodes"))
    with jobs.database.read() as conn:
        rows = store.measurements(conn, stages=job.dag.stages)
    return cuts(
        dag=dag_info(job.dag, job.stages, jobs.catalogue.kinds()),
        video_conf=conf,
        resource_info=info,
        profile=profile_of(job.stages, rows),
        model_id=model_id,
    )


def changed(info: ResourceInfo, nodes: object) -> ResourceInfo:
    """The picture, with what is supposed of its nodes. Raises BadRequest."""
    wanted = _READER.mapping(nodes, "nodes", most=256) if nodes is not None else {}
    names = [one["node"] for one in info.values()]
    for name in wanted:
        if name not in names:
            raise _READER.wrong(f"nodes.{name[:64]}", "is no node of this job", f"There are {', '.join(names)}.")
    return {
        key: _supposed(one, wanted[one["node"]], f"nodes.{one['node']}") if one["node"] in wanted else one
        for key, one in info.items()
    }


def _supposed(info: NodeInfo, data: object, place: str) -> NodeInfo:
    given = _READER.mapping(data, place, most=len(FIGURES))
    _READER.known(given, place, FIGURES)
    found: dict[str, Any] = {}
    for key, value in given.items():
        if key == "online":
            if not isinstance(value, bool):
                raise _READER.wrong(f"{place}.online", "is neither true nor false")
            found[key] = value
        elif value is not None:
            found[key] = _READER.number(value, f"{place}.{key}")
            if found[key] < 0 or (key == "cpu_ratio" and found[key] > 1):
                raise _READER.wrong(f"{place}.{key}", "is out of range")
    return cast(NodeInfo, {**info, **found})


def _job(jobs: Jobs, user: str, given: Mapping[str, Any], now: datetime) -> VideoJob:
    """The job that is named, or one as it would be."""
    if given.get("job_uid"):
        return jobs.get(user, _READER.text(given["job_uid"], "job_uid"))
    node, video_id = (_READER.text(given.get(key), key) for key in ("node", "video_id"))
    video = jobs.video_of(user, node, video_id, now)
    dag = read_dag(given.get("dag"))
    stages = jobs.catalogue.resolve(user, dag, now=now)
    kinds = jobs.catalogue.kinds()
    check_types(dag, {stage.name: kinds[stage.kind] for stage in stages})
    return VideoJob("", user, video.node, video_id, dag, stages, Constraint(), "", RestartPolicy.NEVER, "")
