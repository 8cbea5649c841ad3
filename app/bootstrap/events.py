"""Connects events to their receivers: every event between capabilities, in one list.

Receivers are built when they first receive something: a process builds only what it uses.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Protocol

from app.accounts.service import ActiveWork, OnChange
from app.homes.service.outbox import Wake, listener
from app.kit.clock import now
from app.kit.queue.messages import Message
from app.kit.queue.waker import Waker
from app.kit.sql import Database, Event
from app.nodes.service import NodeListeners
from app.notifications.model import EventKind
from app.notifications.record import CHANGED as OUTBOX
from app.results.model.sink import NODE_SINKS
from app.settings import Settings
from app.video.model.job import SERVICES

if TYPE_CHECKING:
    from app.bootstrap.node_sinks import NodeSinks
    from app.conversion.model import JobRecord
    from app.conversion.service import Conversion
    from app.joint_inference.service import Joint
    from app.model_registry.model import ModelUse, Usage
    from app.training.model import Task
    from app.training.service import Training
    from app.video.service import Video


class Capabilities(Protocol):
    """The container, through which the receivers are reached."""

    @property
    def database(self) -> Database: ...
    @property
    def waker(self) -> Waker: ...
    @property
    def conversion(self) -> Conversion: ...
    @property
    def training(self) -> Training: ...
    @property
    def joint(self) -> Joint: ...
    @property
    def video(self) -> Video: ...
    @property
    def node_sinks(self) -> NodeSinks: ...


def account_listeners(settings: Settings, wake: Wake | None = None) -> tuple[OnChange, ...]:
    """A user was created, changed or removed: notifies the data homes, in the same transaction.

    Args:
        wake: see homes.service.outbox.listener.
    """
    return (listener(wake, has_sftp=settings.sftp != "off"),)


def active_work(of: Capabilities) -> tuple[ActiveWork, ...]:
    """A user is to be removed: counts and cancels their running work."""
    return (
        ActiveWork(
            "jobs", lambda user: of.conversion.jobs.count_active(user), lambda user: of.conversion.jobs.cancel_all(user)
        ),
        ActiveWork(
            "training tasks",
            lambda user: of.training.tasks.count_unended(user),
            lambda user: of.training.tasks.changes.cancel_all(user),
        ),
        ActiveWork(
            "services",
            lambda user: of.joint.services.count(user),
            lambda user: of.joint.services.delete_all(user, now=now()),
        ),
        ActiveWork(
            "video jobs", lambda user: of.video.jobs.count(user), lambda user: of.video.jobs.cancel_all(user, now=now())
        ),
    )


def node_listeners(of: Capabilities) -> NodeListeners:
    """A node was added, removed or changed; got a new token; or its access rule changed. Open pages of nodes are
    notified, too."""

    def announce(name: str) -> None:
        of.waker.notify("nodes", f"nodes:{name}")

    return NodeListeners(
        changed=(
            lambda node, _: announce(node.name),
            lambda node, keys: of.joint.controller.node_changed(node, keys),
            lambda node, keys: of.video.controller.node_changed(node, keys),
            lambda node, keys: of.node_sinks.node_changed(node, keys),
        ),
        replaced=(
            lambda node, keys: of.joint.controller.node_replaced(node, keys),
            lambda node, keys: of.video.controller.node_replaced(node, keys),
        ),
        permitted=(
            lambda node, _: announce(node),
            lambda node, keys: of.joint.controller.node_permitted(node, keys),
            lambda node, keys: of.video.controller.node_permitted(node, keys),
        ),
        standing=frozenset({SERVICES, NODE_SINKS}),
    )


def users_of_model(of: Capabilities, use: ModelUse) -> list[Usage]:
    """A model, a version or a tag is to be removed: its uses, anybody's."""
    from app.joint_inference.calibration.service import calibrations_using

    services = of.joint.services.usages(use)
    jobs = of.video.jobs.usages(use.files)
    stages = of.video.catalogue.usages(use)
    with of.database.read() as conn:
        calibrations = calibrations_using(conn, use, now=now())
    return [*services, *calibrations, *jobs, *stages]


def model_changed(of: Capabilities, owner: str, name: str) -> None:
    """Names of this model now refer to another version, or others may use it or no longer: updates everything that
    follows them."""
    of.joint.services.model_changed(owner, name)
    of.video.catalogue.model_changed(owner, name, now=now())


def task_succeeded(waker: Waker, task: Task) -> None:
    """A training task has succeeded: sends its result to conversion. Lost results are checked every minute."""
    waker.send(Message.CONVERT_RESULTS, task_id=task.task_id)


def changes_committed(waker: Waker, keys: Collection[str]) -> None:
    """A transaction was committed that recorded these as changed: pages read them again, and messages are sent."""
    if OUTBOX in keys:
        waker.send(Message.DELIVER)
    waker.notify(*sorted(set(keys) - {OUTBOX}))


def job_event(record: JobRecord) -> Event:
    """The event of an ended job. Training, services and video publish theirs where they change."""
    error = record.error
    facts = {
        "job_id": record.job_id,
        "status": record.status.value,
        "tags": list(record.tags),
        "verdict": record.verdict.value if record.verdict else None,
        "snr_db": record.stages["bie"].summary.get("snr_db"),
        "artifacts": {name: artifact.sha256 for name, artifact in sorted(record.artifacts.items())},
        **({"step": error.step, "code": error.code, "reason": error.reason, "hint": error.hint} if error else {}),
    }
    kind = EventKind.JOB_FAILED if error else EventKind.JOB_COMPLETED
    return Event(
        f"job:{record.job_id}:{kind}",
        kind.value,
        record.owner,
        f"job:{record.job_id}",
        record.name or record.job_id,
        record.finished_at or record.updated_at,
        f"/ui/jobs/{record.job_id}",
        facts,
    )
