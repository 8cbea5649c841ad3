"""Puts video together: for the web and its actors."""

from __future__ import annotations

import logging
from functools import lru_cache
from typing import TYPE_CHECKING

import redis

from app.kit.queue.messages import Message, post
from app.kit.redis.records import NUDGES
from app.video.scheduling.policy_runner import PolicyRunner
from app.video.service import Catalogue, Controller, Jobs, Pictures, Planner, Reports, Resources, Video
from app.video.streaming import CHANNEL

if TYPE_CHECKING:
    from app.bootstrap.container import Container

logger = logging.getLogger(__name__)


def open_video(container: Container) -> Video:
    """Nothing connects before it is used. Nodes report their changes to it from now on."""

    def kick(uid: str) -> None:
        """Redis being away keeps nobody from changing a job: it is looked at a little later."""
        try:
            post(container.broker, Message.RECONCILE_VIDEO, uid=uid)
        except redis.RedisError as error:
            logger.warning("Video job %s is looked at a little later: %s", uid, error)

    def send(uid: str, why: str) -> None:
        try:
            post(container.broker, Message.PLAN_VIDEO, uid=uid, why=why)
        except redis.RedisError as error:
            logger.warning("Video job %s keeps its plan for now: %s", uid, error)

    def announce(uid: str) -> None:
        try:
            container.redis.publish(f"{NUDGES}{CHANNEL}:{uid}", "")
            container.redis.publish(f"{NUDGES}{CHANNEL}", "")
        except redis.RedisError as error:
            logger.debug("Who watches video jobs reads them again by and by: %s", error)

    settings, database, nodes = container.settings, container.database, container.nodes
    catalogue = Catalogue(database, container.models, member_of=nodes.member_of, note=nodes.note)
    resources = Resources(nodes)
    jobs = Jobs(database, catalogue, resources, kick=kick, announce=announce, max_per_user=settings.video_jobs_per_user)
    planning = Planner(database, jobs, resources, send=send, desk=lru_cache(maxsize=1)(PolicyRunner))
    reports = Reports(database, jobs, container.redis, announce=announce)
    controller = Controller(
        database,
        catalogue,
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
    return Video(catalogue, jobs, resources, planning, reports, Pictures(jobs, nodes, container.objects), controller)
