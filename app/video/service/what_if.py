"""What if: from a user's question in JSON to predictions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, cast

from app.kit.errors import BadRequest
from app.kit.text.json_values import JsonObject
from app.video import store
from app.video.model.constraint import Constraint
from app.video.model.dag import read_dag
from app.video.model.job import RestartPolicy, VideoJob
from app.video.model.plan import MODEL_IDS, VideoConf, read_video_conf
from app.video.model.reader import Reader
from app.video.scheduling.contract import NodeInfo, ResourceInfo
from app.video.scheduling.predictor import Prediction, predict_cuts
from app.video.scheduling.source_limits import within_source
from app.video.service.jobs import Jobs
from app.video.service.planner_input import dag_info, profile_of
from app.video.service.resources import Resources
from app.video.service.submission import source_facts

KEYS = ("job_uid", "node", "video_id", "dag", "nodes", "video_conf", "model_id")
FIGURES = ("up_mbps", "down_mbps", "cpu_ratio", "online")
_READER = Reader(BadRequest)


def predictions(
    jobs: Jobs, resources: Resources, user: str, body: Mapping[str, Any], now: datetime
) -> list[Prediction]:
    """See Planner.what_if.

    Args:
        body: as the user sent it.
    """
    question = _READER.mapping(body, "body", most=len(KEYS))
    _READER.only_keys(question, "body", KEYS)
    job = _find_job(jobs, user, question, now)
    if question.get("video_conf") is not None:
        conf = read_video_conf(question["video_conf"])
    else:
        conf = job.plan.video_conf if job.plan else VideoConf()
    conf = within_source(conf, job.generator_output)
    model_id = _READER.integer(question.get("model_id") or 0, "model_id", least=MODEL_IDS[0], most=MODEL_IDS[-1])
    info = with_assumptions(resources.info(job, now), question.get("nodes"))
    with jobs.database.read() as conn:
        rows = store.measurements(conn, stages=job.dag.stages)
    return predict_cuts(
        dag=dag_info(job.dag, job.stages, jobs.catalogue.kinds()),
        video_conf=conf,
        resource_info=info,
        profile=profile_of(job.stages, rows),
        model_id=model_id,
    )


def with_assumptions(info: ResourceInfo, nodes: object) -> ResourceInfo:
    """Returns the resource picture with what the question assumes of nodes.

    Raises:
        BadRequest: A node is not of this job, or a value is invalid.
    """
    assumed = _READER.mapping(nodes, "nodes", most=256) if nodes is not None else {}
    names = [node["node"] for node in info.values()]
    for name in assumed:
        if name not in names:
            raise _READER.problem(f"nodes.{name[:64]}", "is no node of this job", f"There are {', '.join(names)}.")
    return {
        key: _assume(node, assumed[node["node"]], f"nodes.{node['node']}") if node["node"] in assumed else node
        for key, node in info.items()
    }


def _assume(info: NodeInfo, data: object, place: str) -> NodeInfo:
    figures = _READER.mapping(data, place, most=len(FIGURES))
    _READER.only_keys(figures, place, FIGURES)
    changes: JsonObject = {}
    for key, value in figures.items():
        if key == "online":
            if not isinstance(value, bool):
                raise _READER.problem(f"{place}.online", "is neither true nor false")
            changes[key] = value
        elif value is not None:
            changes[key] = _READER.number(value, f"{place}.{key}")
            if changes[key] < 0 or (key == "cpu_ratio" and changes[key] > 1):
                raise _READER.problem(f"{place}.{key}", "is out of range")
    return cast(NodeInfo, {**info, **changes})


def _find_job(jobs: Jobs, user: str, question: Mapping[str, Any], now: datetime) -> VideoJob:
    """The job that the question names, or one that is not stored."""
    if question.get("job_uid"):
        return jobs.get(user, _READER.text(question["job_uid"], "job_uid"))
    node, video_id = (_READER.text(question.get(key), key) for key in ("node", "video_id"))
    video = jobs.resources.video_of(user, node, video_id, now)
    dag = read_dag(question.get("dag"))
    stages = jobs.catalogue.resolve(user, dag, now=now)
    job = VideoJob("", user, video.node, video_id, dag, stages, Constraint(), "", RestartPolicy.NEVER, "")
    return replace(job, generator_output=source_facts(video.videos[video_id]))
