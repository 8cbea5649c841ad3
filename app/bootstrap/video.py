"""Puts video together from the parts: for the web and its actors."""

from __future__ import annotations

import logging
from functools import lru_cache
from typing import TYPE_CHECKING

import redis

from app.kit.redis.records import NUDGES
from app.video.scheduling.policy_runner import PolicyRunner
from app.video.service import (
    Catalogue,
    Controller,
    Jobs,
    Pictures,
    Planner,
    Reports,
    Resources,
    Snapshots,
    Video,
    plots_in,
)

if TYPE_CHECKING:
    from app.bootstrap.container import Container

QUEUE, PLANS = "video", "video_plans"
logger = logging.getLogger(__name__)


def open_video(parts: Container) -> Video:
    """Nothing connects before it is used. Nodes report their changes to it from now on."""

    def kick(uid: str) -> None:
        """Redis being away keeps nobody from changing a job: it is looked at a little later."""
        try:
            parts.broker.send(QUEUE, "reconcile_video", uid=uid)
        except redis.RedisError as error:
            logger.warning("Video job %s is looked at a little later: %s", uid, error)

    def send(uid: str, why: str) -> None:
        try:
            parts.broker.send(PLANS, "plan_video", uid=uid, why=why)
        except redis.RedisError as error:
            logger.warning("Video job %s keeps its plan for now: %s", uid, error)

    def announce(uid: str) -> None:
        try:
            parts.redis.publish(f"{NUDGES}{QUEUE}:{uid}", "")
            parts.redis.publish(f"{NUDGES}{QUEUE}", "")
        except redis.RedisError as error:
            logger.debug("Who watches video jobs reads them again by and by: %s", error)

    settings, database, nodes = parts.settings, parts.database, parts.nodes
    catalogue = Catalogue(
        database, parts.models, on_change=lambda: kick(""), member_of=nodes.member_of, note=nodes.note
    )
    resources = Resources(nodes)
    plots, snapshots = plots_in(parts.redis), Snapshots(parts.objects)
    jobs = Jobs(
        database,
        catalogue,
        resources,
        kick=kick,
        announce=announce,
        request_plan=send,
        on_forget=(plots.forget, snapshots.forget),
        max_per_user=settings.video_jobs_per_user,
    )
    planning = Planner(database, jobs, resources, send=send, policy_runner=lru_cache(maxsize=1)(PolicyRunner))
    reports = Reports(database, jobs, plots, announce=announce)
    controller = Controller(
        database,
        jobs,
        resources,
        planning,
        reports,
        nodes,
        processes=settings.video_processes,
        keep_days=settings.video_keep_days,
    )
    nodes.on_change.append(controller.node_changed)
    nodes.on_replace.append(controller.node_replaced)
    nodes.on_permit.append(controller.node_permitted)
    return Video(catalogue, jobs, resources, planning, reports, Pictures(jobs, nodes, snapshots), controller)
