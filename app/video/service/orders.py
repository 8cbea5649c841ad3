"""What nodes are told of jobs. In the caller's transactions; who commits nudges the nodes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from app.nodes.errors import NodeNotFound
from app.nodes.model import Node, Operation, Order, WorkKey
from app.nodes.service import Nodes
from app.video.model.job import JOBS, PART, JobContent, StageHost, VideoJob

NAMESPACE = "video"
GENERATION = 1
"""A runner and a host of stages take over what is new while they run: they are the same generation all the time."""


def job_key(uid: str) -> WorkKey:
    return WorkKey(JOBS, uid, PART)


def content_of(job: VideoJob, hosts: tuple[StageHost, ...]) -> dict[str, Any]:
    return JobContent(
        job.uid,
        job.video_id,
        job.dag,
        job.stages,
        job.mode,
        job.realtime,
        job.restart_policy,
        job.constraint,
        job.plan,
        hosts,
        job.secret,
    ).to_json()


def put_job(nodes: Nodes, conn: Connection, job: VideoJob, hosts: tuple[StageHost, ...]) -> set[str]:
    """Names of the nodes that must hear of it; none when that is nothing new, or the node is gone."""
    try:
        is_new = nodes.order(
            conn,
            job.node,
            job_key(job.uid),
            namespace=NAMESPACE,
            name=job.uid,
            generation=GENERATION,
            content=content_of(job, hosts),
        )
    except NodeNotFound:
        return set()
    return {job.node} if is_new else set()


def tells(orders: Iterable[Order], node: str, content: Mapping[str, Any]) -> bool:
    """Is this what the node is told already?"""
    return any(
        order.node == node and order.operation is not Operation.DELETE and _text(order.content) == _text(content)
        for order in orders
    )


def hosts_told(orders: Iterable[Order]) -> set[tuple[str, str]]:
    """(node, url) of the hosts of stages in a job's order."""
    return {
        (str(host["node"]), str(host["url"]))
        for order in orders
        if order.operation is not Operation.DELETE
        for host in order.content.get("hosts", ())
    }


def is_carried(job: VideoJob, nodes: Iterable[Node], now: datetime) -> bool:
    """Are the nodes of its plan there? The job's own is not asked about: without it nothing of the job is known."""
    if job.plan is None:
        return False
    there = {node.name for node in nodes if node.is_online(now)} | {job.node, ""}
    return all(place.node in there for place in job.plan.flow_mapping.values())


def _text(content: Any) -> str:
    return json.dumps(content, sort_keys=True)
