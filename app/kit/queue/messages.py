"""The product's messages and queues: one table that declares actors and that all senders use. An additional package has
its own table beside it.

It is in the kit because senders and receivers of a message do not know each other. `app.standalone.processes` lists
which process serves which queue.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Protocol, Self


class Queue(StrEnum):
    ONNX = "onnx"
    BIE = "bie"
    NEF = "nef"
    DONE = "done"
    PERIODIC = "periodic"
    TRAINING = "training"
    TRAINING_RESULTS = "training_results"
    NODES = "nodes"
    JOINT = "joint"
    JOINT_CALIBRATION = "joint_calibration"
    VIDEO = "video"
    VIDEO_PLANS = "video_plans"
    NOTIFICATIONS = "notifications"
    SWEEPS = "sweeps"
    EXCHANGE = "exchange"


DELAYED = frozenset({Queue.JOINT_CALIBRATION, Queue.VIDEO_PLANS, Queue.NOTIFICATIONS, Queue.EXCHANGE})
"""Queues of messages that may take long, as they wait for others' servers: several run at once, and with too many at
once a message is put back, delayed."""


class BaseMessage(StrEnum):
    """A message has the name of the actor that runs it."""

    queue: Queue
    """The queue it is sent to."""

    def __new__(cls, actor: str, queue: Queue) -> Self:
        message = str.__new__(cls, actor)
        message._value_ = actor
        message.queue = queue
        return message


class Message(BaseMessage):
    """The messages of the product."""

    RUN_ONNX = "run_onnx", Queue.ONNX
    RUN_BIE = "run_bie", Queue.BIE
    RUN_NEF = "run_nef", Queue.NEF
    DONE = "done", Queue.DONE
    SWEEP = "sweep", Queue.PERIODIC
    EXPIRE = "expire", Queue.PERIODIC
    SWEEP_CACHE = "sweep_cache", Queue.PERIODIC

    APPLY_DOOR = "apply_door", Queue.PERIODIC
    CLEAR_HOMES = "clear_homes", Queue.PERIODIC

    SCHEDULE = "schedule", Queue.TRAINING
    CONVERT_RESULTS = "convert_results", Queue.TRAINING_RESULTS
    LOOK_FOR_RESULTS = "look_for_results", Queue.PERIODIC

    WATCH_NODES = "watch_nodes", Queue.NODES

    RECONCILE = "reconcile", Queue.JOINT
    UPSTREAM = "upstream", Queue.JOINT
    FORGET_GONE = "forget_gone", Queue.JOINT
    MEASURE_DRIFT = "measure_drift", Queue.JOINT
    CALIBRATE = "calibrate", Queue.JOINT_CALIBRATION

    RECONCILE_VIDEO = "reconcile_video", Queue.VIDEO
    KEEP_EVENT_CLIPS = "keep_event_clips", Queue.VIDEO
    FORGET_OLD_VIDEO = "forget_old_video", Queue.VIDEO
    FORGET_OLD_ROWS = "forget_old_rows", Queue.VIDEO
    ORDER_SINKS = "order_sinks", Queue.VIDEO
    PLAN_VIDEO = "plan_video", Queue.VIDEO_PLANS

    JOB_ENDED = "job_ended", Queue.NOTIFICATIONS
    DELIVER = "deliver", Queue.NOTIFICATIONS
    DELIVER_ROWS = "deliver_rows", Queue.NOTIFICATIONS
    FORGET_DELIVERIES = "forget_deliveries", Queue.NOTIFICATIONS

    SUBMIT_SWEEPS = "submit_sweeps", Queue.SWEEPS

    TRANSFER = "transfer", Queue.EXCHANGE


class Sender(Protocol):
    """The broker, for code that only sends."""

    def send(self, queue: str, actor: str, *, message_id: str | None = None, **kwargs: Any) -> None: ...


def post(sender: Sender, message: BaseMessage, *, message_id: str | None = None, **kwargs: Any) -> None:
    """Puts a message on its queue.

    Args:
        sender: the broker.
        message: the message.
        message_id: unique within the queue; random by default.
        kwargs: the arguments of its actor.

    Raises:
        redis.RedisError: Redis does not answer; it is unknown whether the message was sent.
    """
    sender.send(message.queue.value, message.value, message_id=message_id, **kwargs)
