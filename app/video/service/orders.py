"""The orders that make nodes run jobs. In the caller's transactions; the caller notifies the nodes afterwards."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from app.kit.text.json_values import JsonObject
from app.nodes.errors import NodeNotFound
from app.nodes.model import Node, Operation, Order, WorkKey
from app.nodes.service import Nodes
from app.video.model.job import JOBS, PART, JobContent, StageHost, VideoJob

NAMESPACE = "video"
GENERATION = 1
"""A runner and a stage host accept new content while they run, so their generation never changes."""


def job_key(uid: str) -> WorkKey:
    return WorkKey(JOBS, uid, PART)


def content_of(job: VideoJob, hosts: tuple[StageHost, ...]) -> JsonObject:
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


def order_job(nodes: Nodes, conn: Connection, job: VideoJob, hosts: tuple[StageHost, ...]) -> set[str]:
    """Orders a job's runner from its node.

    Args:
        hosts: that the runner may call.

    Returns:
        The name of the node to notify; nothing if the order is unchanged or the node is gone.
    """
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


def is_ordered(orders: Iterable[Order], node: str, content: Mapping[str, Any]) -> bool:
    """Whether the node has an order with this content already."""
    return any(
        order.node == node and order.operation is not Operation.DELETE and _to_text(order.content) == _to_text(content)
        for order in orders
    )


def hosts_ordered(orders: Iterable[Order]) -> set[tuple[str, str]]:
    """(node, url) of the stage hosts in a job's orders."""
    return {
        (str(host["node"]), str(host["url"]))
        for order in orders
        if order.operation is not Operation.DELETE
        for host in order.content.get("hosts", ())
    }


def can_run(job: VideoJob, nodes: Iterable[Node], now: datetime) -> bool:
    """Whether the nodes of its plan are online. The job's own node counts as online: without it nothing is known of the
    job."""
    if job.plan is None:
        return False
    there = {node.name for node in nodes if node.is_online(now)} | {job.node, ""}
    return all(place.node in there for place in job.plan.flow_mapping.values())


def _to_text(content: Any) -> str:
    return json.dumps(content, sort_keys=True)
