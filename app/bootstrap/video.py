"""Puts video together: for the web and its actors."""

from __future__ import annotations

from functools import lru_cache

from redis import Redis

from app.bootstrap.home_folders import HomeFolders
from app.kit.access import EnabledOf
from app.kit.network.networks import read_networks
from app.kit.objects import ObjectStore
from app.kit.queue.messages import Message
from app.kit.queue.waker import Waker
from app.kit.sql import Database
from app.model_registry.service import Models
from app.nodes.service import Nodes
from app.settings import Settings
from app.video import store
from app.video.model.sink import SinkKind
from app.video.scheduling.policy_runner import PolicyRunner
from app.video.senders import FileSender, HttpSender, MqttSender, RedisSender, home_assistant_messages
from app.video.service import (
    Catalogue,
    Controller,
    Jobs,
    Pictures,
    Planner,
    Reports,
    Resources,
    Results,
    Rules,
    Sinks,
    Snapshots,
    Video,
    plots_in,
)
from app.video.service.sinks import TRY_S, SinkSender
from app.video.streaming import CHANNEL


def open_video(
    settings: Settings,
    database: Database,
    nodes: Nodes,
    models: Models,
    objects: ObjectStore,
    client: Redis,
    waker: Waker,
    folders: HomeFolders,
    *,
    enabled_of: EnabledOf,
) -> Video:
    """Nothing connects before it is used.

    Args:
        folders: Of data homes.
        enabled_of: those of these users who are enabled.
    """

    def kick(uid: str) -> None:
        waker.send(Message.RECONCILE_VIDEO, uid=uid)

    def request_plan(uid: str, why: str) -> None:
        """One that is lost leaves the job its plan; its runner asks again."""
        waker.send(Message.PLAN_VIDEO, uid=uid, why=why)

    def announce(uid: str) -> None:
        waker.notify(f"{CHANNEL}:{uid}", CHANNEL)

    catalogue = Catalogue(
        database, models, on_change=lambda: kick(""), member_of=nodes.access.member_of, note=nodes.access.note
    )
    resources = Resources(nodes)
    plots, snapshots = plots_in(client), Snapshots(objects)
    jobs = Jobs(
        database,
        catalogue,
        resources,
        kick=kick,
        announce=announce,
        request_plan=request_plan,
        on_forget=(plots.forget, snapshots.forget),
        max_per_user=settings.video_jobs_per_user,
    )
    planning = Planner(database, jobs, resources, send=request_plan, policy_runner=lru_cache(maxsize=1)(PolicyRunner))
    kept = {"keep_days": settings.video_results_days, "most_per_job": settings.video_results_per_job}
    rules = Rules(database, jobs, snapshots, **kept)

    def wake_sinks() -> None:
        waker.send(Message.DELIVER_ROWS)

    reports = Reports(database, jobs, plots, rules, announce=announce, wake_sinks=wake_sinks)
    results = Results(database, jobs, **kept)
    controller = Controller(
        database,
        jobs,
        resources,
        planning,
        reports,
        results,
        rules,
        nodes,
        processes=settings.video_processes,
        keep_days=settings.video_keep_days,
    )

    def owner_of(uid: str) -> str:
        with database.read() as conn:
            stored = store.get(conn, uid)
        return stored.job.owner if stored else ""

    networks = read_networks(settings.notification_networks)
    senders: dict[SinkKind, SinkSender] = {
        SinkKind.HTTP: HttpSender(networks, try_s=TRY_S),
        SinkKind.MQTT: MqttSender(networks, try_s=TRY_S),
        SinkKind.HOME_ASSISTANT: MqttSender(networks, try_s=TRY_S, messages=home_assistant_messages),
        SinkKind.REDIS: RedisSender(networks, try_s=TRY_S),
        SinkKind.FILE: FileSender(folders, owner_of),
    }
    sinks = Sinks(database, jobs, senders, networks, check_folder=folders.check, enabled_of=enabled_of)
    pictures = Pictures(jobs, nodes, snapshots, on_snapshot=rules.keep_picture)
    return Video(catalogue, jobs, resources, planning, reports, results, rules, sinks, pictures, controller)
