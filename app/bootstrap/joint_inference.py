"""Puts joint inference together from the parts: for the web, its actors and the operator."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import redis

from app.homes.errors import FileMissing, PathRefused
from app.homes.home_paths import spot_of
from app.joint_inference.calibration.service import Calibrations, calibrations_using
from app.joint_inference.service import Controller, Joint, Reports, Services
from app.joint_inference.service.task_info import Status
from app.kit.clock import now
from app.kit.errors import Unavailable
from app.kit.redis.records import NUDGES
from app.model_registry.model import Model
from app.model_registry.store import get_model

if TYPE_CHECKING:
    from app.bootstrap.container import Container

QUEUE, CALIBRATION = "joint", "joint_calibration"
logger = logging.getLogger(__name__)


def open_joint(parts: Container) -> Joint:
    """Nothing connects before it is used. Nodes report their changes to it from now on."""

    def kick(uid: str) -> None:
        """Redis being away keeps nobody from changing a service: it is looked at a little later."""
        try:
            parts.broker.send(QUEUE, "reconcile", uid=uid)
        except redis.RedisError as error:
            logger.warning("Service %s is looked at a little later: %s", uid, error)

    def announce() -> None:
        try:
            parts.redis.publish(f"{NUDGES}{QUEUE}", "")
        except redis.RedisError as error:
            logger.debug("Who watches services reads them again by and by: %s", error)

    def send(uid: str, status: Status) -> None:
        parts.broker.send(QUEUE, "upstream", uid=uid, status=status.model_dump())

    def has_dataset(user: str, path: str) -> bool:
        homes = parts.homes
        try:
            spot = spot_of(homes.options, user, path)
            shelf = homes.files.common() if spot.is_common else homes.files.home(user)
            shelf.info(spot.inner)
        except (PathRefused, FileMissing):
            return False
        return True

    services = Services(parts.database, parts.nodes, kick, announce, get_model)
    reports = Reports(services, parts.nodes, parts.objects, parts.redis, send)
    controller = Controller(services, reports, parts.nodes, parts.models, has_dataset)
    parts.nodes.on_change.append(controller.node_changed)
    parts.nodes.on_replace.append(controller.node_replaced)
    parts.nodes.on_permit.append(controller.node_permitted)
    return Joint(services, reports, controller)


def model_uses(parts: Container, model: Model) -> list[str]:
    """The services that name a model, and the calibrations under way that compute with it."""
    services = parts.joint.services.using(model.owner, model.name)
    with parts.database.read() as conn:
        calibrations = calibrations_using(conn, model.owner, model.name, now=now())
    return [*(f"service {name}" for name in services), *(f"calibration of {name}" for name in calibrations)]


def open_calibrations(parts: Container) -> Calibrations:
    """Nothing connects before it is used."""

    def start(calibration_id: str) -> None:
        try:
            parts.broker.send(CALIBRATION, "calibrate", calibration_id=calibration_id)
        except redis.RedisError as error:
            logger.warning("Calibration %s cannot be started: %s", calibration_id, error)
            raise Unavailable("Redis does not answer.", hint="Try again in a moment.") from error

    settings = parts.settings
    return Calibrations(
        parts.database,
        parts.objects,
        parts.models,
        parts.joint.services,
        parts.sandbox,
        start=start,
        work=settings.work,
        memory_bytes=settings.stage_memory_bytes,
    )
