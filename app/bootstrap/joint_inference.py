"""Puts joint inference together: for the web, its actors and the operator."""

from __future__ import annotations

import logging

from redis import Redis, RedisError

from app.bootstrap.home_folders import HomeFolders
from app.homes.errors import FileMissing, PathRefused
from app.homes.home_paths import home_path_of
from app.homes.service import Homes
from app.joint_inference.calibration.service import Calibrations
from app.joint_inference.service import Controller, HardSamples, Joint, Reports, ServicePlanner, Services
from app.joint_inference.service.collection import HardSampleCollection
from app.joint_inference.service.task_info import UpstreamStatus
from app.kit.errors import Unavailable
from app.kit.objects import ObjectStore
from app.kit.queue.messages import Message, Sender, post
from app.kit.queue.waker import Waker
from app.kit.sandbox.runner import Sandbox
from app.kit.sql import Database
from app.model_registry.service import Models
from app.nodes.service import Nodes
from app.results.service import Rules
from app.settings import Settings

CHANNEL = "joint"
logger = logging.getLogger(__name__)


def open_joint(
    database: Database,
    homes: Homes,
    nodes: Nodes,
    models: Models,
    objects: ObjectStore,
    client: Redis,
    sender: Sender,
    waker: Waker,
    folders: HomeFolders,
    rules: Rules,
) -> Joint:
    """Nothing connects before it is used.

    Args:
        client: of the Redis that keeps time series of services.
        sender: takes the upstream's messages.
        waker: wakes the controller, and tells open pages of changes.
        folders: of data homes, for hard samples that are to be kept there.
        rules: of its services, among others.
    """

    def wake(uid: str) -> None:
        waker.send(Message.RECONCILE, uid=uid)

    def announce() -> None:
        waker.notify(CHANNEL)

    def send(uid: str, status: UpstreamStatus) -> None:
        post(sender, Message.UPSTREAM, uid=uid, status=status.model_dump())

    def has_dataset(user: str, path: str) -> bool:
        try:
            location = home_path_of(homes.options, user, path)
            homes.files.tree(user, location).info(location.inner)
        except (PathRefused, FileMissing):
            return False
        return True

    services = Services(database, nodes, wake, announce, models.access.registered)

    def wake_sinks() -> None:
        waker.send(Message.DELIVER_ROWS)

    reports = Reports(services, nodes, client, rules, send, wake_sinks)
    samples = HardSamples(services, nodes, objects, rules, HardSampleCollection(folders))
    planner = ServicePlanner(services, nodes, models, has_dataset)
    controller = Controller(services, reports, samples, nodes, planner)
    return Joint(services, reports, samples, controller)


def open_calibrations(
    settings: Settings,
    database: Database,
    objects: ObjectStore,
    models: Models,
    services: Services,
    sandbox: Sandbox,
    sender: Sender,
    folders: HomeFolders,
) -> Calibrations:
    """Nothing connects before it is used.

    Args:
        settings: the folder of the work and the memory that it may use.
        sender: starts a calibration by a message; an error of Redis is raised as Unavailable.
        folders: of data homes, in which hard samples are kept.
    """

    def start(calibration_id: str) -> None:
        try:
            post(sender, Message.CALIBRATE, calibration_id=calibration_id)
        except RedisError as error:
            logger.warning("Calibration %s cannot be started: %s", calibration_id, error)
            raise Unavailable("Redis does not answer.", hint="Try again in a moment.") from error

    return Calibrations(
        database,
        objects,
        models,
        services,
        sandbox,
        collection=HardSampleCollection(folders),
        start=start,
        work=settings.work,
        memory_bytes=settings.stage_memory_bytes,
    )
