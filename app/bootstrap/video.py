"""Puts video together: for the web and its actors."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache, partial

from redis import Redis

from app.kit.objects import ObjectStore
from app.kit.queue.messages import Message
from app.kit.queue.waker import Waker
from app.kit.sql import Database
from app.model_registry.service import Models
from app.nodes.service import Nodes
from app.results.service import Rules
from app.settings import Settings
from app.video.job_events import CHANNEL
from app.video.model.kinds import StageKind
from app.video.scheduling.policy_runner import PolicyRunner
from app.video.service import (
    Catalogue,
    Clips,
    Controller,
    Jobs,
    JobSets,
    Pictures,
    Planner,
    Reports,
    Resources,
    Snapshots,
    Video,
    plots_in,
)
from app.video.service.producers import KIND


def open_video(
    settings: Settings,
    database: Database,
    nodes: Nodes,
    models: Models,
    objects: ObjectStore,
    client: Redis,
    waker: Waker,
    rules: Rules,
) -> Video:
    """Nothing connects before it is used.

    Args:
        client: of the Redis that keeps the points of plots.
        waker: wakes controller and scheduler, and tells open pages of changes.
        rules: of its jobs, among others.
    """

    def wake(uid: str) -> None:
        """Once for many changes: with a hundred nodes that come at once each look takes long."""
        waker.send_once(Message.RECONCILE_VIDEO, uid=uid)

    def request_plan(uid: str, why: str) -> None:
        """A lost one leaves the job its plan; its runner asks again."""
        waker.send(Message.PLAN_VIDEO, uid=uid, why=why)

    def announce(uid: str) -> None:
        waker.notify(f"{CHANNEL}:{uid}", CHANNEL)

    catalogue = Catalogue(
        database,
        models,
        kinds=_load_stage_kinds,
        on_change=lambda: wake(""),
        member_of=nodes.access.member_of,
        note=nodes.access.note,
    )
    resources = Resources(nodes)
    plots, snapshots = plots_in(client), Snapshots(objects)
    jobs = Jobs(
        database,
        catalogue,
        resources,
        wake=wake,
        announce=announce,
        request_plan=request_plan,
        on_forget=(plots.forget, snapshots.forget),
        max_per_user=settings.video_jobs_per_user,
    )
    sets = JobSets(database, jobs, resources, wake=lambda: wake(""))
    planning = Planner(database, jobs, resources, send=request_plan, policy_runner=lru_cache(maxsize=1)(PolicyRunner))

    def wake_sinks() -> None:
        waker.send(Message.DELIVER_ROWS)

    reports = Reports(database, jobs, plots, rules, announce=announce, wake_sinks=wake_sinks)
    controller = Controller(
        database,
        jobs,
        sets,
        resources,
        planning,
        reports,
        nodes,
        processes=settings.video_processes,
        keep_days=settings.video_keep_days,
    )

    def keep_clips(uid: str) -> None:
        waker.send(Message.KEEP_EVENT_CLIPS, uid=uid)

    pictures = Pictures(jobs, nodes, snapshots, on_snapshot=partial(rules.keep_picture, KIND), keep_clips=keep_clips)
    clips = Clips(pictures, rules)
    return Video(catalogue, jobs, sets, resources, planning, reports, pictures, clips, controller)


def _load_stage_kinds() -> Mapping[str, StageKind]:
    """Those of the nodes' program, by name."""
    from app.edge.video.stages.registry import kinds  # imported on demand, because it loads numpy

    return kinds()
