"""Jobs of tests on a real Ray cluster, in few words."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest

from app.kit.backoff import GrowingPause
from app.training.errors import RayUnreachable
from app.training.gateway import Gateway, RayJob, RayStatus, Submission
from app.training.model import Node
from tests.harness.ray_cluster import RESOURCE
from tests.harness.until import until

ON_WORKER = {RESOURCE: 1.0}
PAUSES = GrowingPause(first_s=0.2, longest_s=0.4, growth=1.2)
"""Each look costs Ray and us some milliseconds of the processor, and a job takes seconds."""


SHORT_S = 2.0
"""Time-out of gateways that are to give up."""


def new_id() -> str:
    return f"contract-{uuid.uuid4().hex[:12]}--a01"


def submitted(gateway: Gateway, entrypoint: str, **more: object) -> str:
    submission = Submission(new_id(), entrypoint, **({"resources": ON_WORKER} | more))  # type: ignore[arg-type]
    gateway.submit(submission)
    return submission.submission_id


def ended(gateway: Gateway, submission_id: str) -> RayJob:
    return reaching(gateway, submission_id, *(status for status in RayStatus if status.is_terminal))


def reaching(gateway: Gateway, submission_id: str, *statuses: RayStatus) -> RayJob:
    job = until(
        lambda: gateway.job(submission_id), lambda job: job is not None and job.status in statuses, pauses=PAUSES
    )
    assert job is not None
    return job


def workers(gateway: Gateway) -> list[Node]:
    return [node for node in gateway.nodes() if node.may_train]


def unreachable(call: Callable[[], object]) -> RayUnreachable:
    """It ends; by itself Ray never would, and the test would be ended as one that hangs."""
    with pytest.raises(RayUnreachable) as caught:
        call()
    assert caught.value.hint
    return caught.value


EVERY_CALL: dict[str, Callable[[Gateway], object]] = {
    "submit": lambda gateway: gateway.submit(Submission(new_id(), "true")),
    "job": lambda gateway: gateway.job(new_id()),
    "stop": lambda gateway: gateway.stop(new_id()),
    "nodes": lambda gateway: gateway.nodes(),
    "placement_groups": lambda gateway: gateway.placement_groups(),
    "log_tail": lambda gateway: gateway.log_tail(RayJob(new_id(), RayStatus.RUNNING, driver_node_id="ab"), 10),
    "log": lambda gateway: list(gateway.log(RayJob(new_id(), RayStatus.RUNNING, driver_node_id="ab"))),
}
