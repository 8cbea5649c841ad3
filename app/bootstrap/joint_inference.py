"""Puts joint inference together: for the web, its actors and the operator."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import redis

from app.homes.errors import FileMissing, PathRefused
from app.homes.home_paths import spot_of
from app.joint_inference.calibration.service import Calibrations
from app.joint_inference.service import Controller, Joint, Reports, Services
from app.joint_inference.service.task_info import Status
from app.kit.errors import Unavailable
from app.kit.queue.messages import Message, post
from app.kit.redis.records import NUDGES

if TYPE_CHECKING:
    from app.bootstrap.container import Container

logger = logging.getLogger(__name__)


def open_joint(container: Container) -> Joint:
    """Nothing connects before it is used. Nodes report their changes to it from now on."""

    def kick(uid: str) -> None:
        """Redis being away keeps nobody from changing a service: it is looked at a little later."""
        try:
            post(container.broker, Message.RECONCILE, uid=uid)
        except redis.RedisError as error:
            logger.warning("Service %s is looked at a little later: %s", uid, error)

    def announce() -> None:
        try:
            container.redis.publish(f"{NUDGES}joint", "")
        except redis.RedisError as error:
            logger.debug("Who watches services reads them again by and by: %s", error)

    def send(uid: str, status: Status) -> None:
        post(container.broker, Message.UPSTREAM, uid=uid, status=status.model_dump())

    def has_dataset(user: str, path: str) -> bool:
        homes = container.homes
        try:
            spot = spot_of(homes.options, user, path)
            shelf = homes.files.common() if spot.is_common else homes.files.home(user)
            shelf.info(spot.inner)
        except (PathRefused, FileMissing):
            return False
        return True

    services = Services(container.database, container.nodes, kick, announce)
    reports = Reports(services, container.nodes, container.objects, container.redis, send)
    controller = Controller(services, reports, container.nodes, container.models, has_dataset)
    container.nodes.on_change.append(controller.node_changed)
    container.nodes.on_replace.append(controller.node_replaced)
    container.nodes.on_permit.append(controller.node_permitted)
    return Joint(services, reports, controller)


def open_calibrations(container: Container) -> Calibrations:
    """Nothing connects before it is used."""

    def start(calibration_id: str) -> None:
        try:
            post(container.broker, Message.CALIBRATE, calibration_id=calibration_id)
        except redis.RedisError as error:
            logger.warning("Calibration %s cannot be started: %s", calibration_id, error)
            raise Unavailable("Redis does not answer.", hint="Try again in a moment.") from error

    settings = container.settings
    return Calibrations(
        container.database,
        container.objects,
        container.models,
        container.joint.services,
        container.sandbox,
        start=start,
        work=settings.work,
        memory_bytes=settings.stage_memory_bytes,
    )
