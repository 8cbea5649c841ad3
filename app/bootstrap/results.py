"""Puts together what keeps results, of video jobs and services alike."""

from __future__ import annotations

from app.bootstrap.home_folders import HomeFolders
from app.bootstrap.joint_inference import CHANNEL as JOINT_CHANNEL
from app.bootstrap.node_sinks import NodeSinks
from app.kit.access import EnabledOf
from app.kit.network.addresses import read_networks
from app.kit.objects import ObjectStore
from app.kit.queue.waker import Waker
from app.kit.sql import Database
from app.results.model.sink import SinkKind
from app.results.senders import FileSender, network_senders
from app.results.service import Results, ResultServices, Rules, Sinks
from app.results.service.event_media import EventMedia
from app.results.service.producers import find_producer
from app.settings import Settings
from app.video.job_events import CHANNEL as VIDEO_CHANNEL


def open_results(
    settings: Settings,
    database: Database,
    folders: HomeFolders,
    objects: ObjectStore,
    waker: Waker,
    at_nodes: NodeSinks,
    *,
    enabled_of: EnabledOf,
) -> ResultServices:
    """Nothing connects before it is used.

    Args:
        folders: Of data homes.
        objects: for pictures and clips of events.
        waker: tells open pages of events.
        at_nodes: has nodes deliver to sinks.
        enabled_of: those of these users who are enabled.
    """
    kinds = at_nodes.kinds

    def owner_of(uid: str) -> str:
        with database.read() as conn:
            producer = find_producer(conn, kinds, uid)
        return producer.owner if producer else ""

    networks = read_networks(settings.notification_networks)
    senders = {**network_senders(networks), SinkKind.FILE: FileSender(folders, owner_of)}
    rows = Results(database, kinds, keep_days=settings.results_days, most_per_producer=settings.results_per_producer)
    sinks = Sinks(
        database,
        kinds,
        senders,
        networks,
        order_nodes=at_nodes.reconcile,
        test_at_nodes=at_nodes.test,
        check_folder=folders.check,
        enabled_of=enabled_of,
    )
    rules = Rules(
        database,
        kinds,
        EventMedia(objects),
        announce={
            "video": lambda uid: waker.notify(f"{VIDEO_CHANNEL}:{uid}", VIDEO_CHANNEL),
            "joint": lambda _: waker.notify(JOINT_CHANNEL),
        },
        keep_days=settings.results_days,
        most_per_producer=settings.results_per_producer,
        on_change=at_nodes.reconcile,
    )
    return ResultServices(rows, rules, sinks)
