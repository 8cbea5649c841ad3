"""Jobs of tests on a real Ray cluster, in few words."""

from __future__ import annotations

import uuid

from app.kit.backoff import GrowingPause
from app.training.gateway import Gateway, RayJob, RayStatus, Submission
from app.training.model import Node
from tests.harness.api import until
from tests.harness.ray_cluster import RESOURCE

ON_WORKER = {RESOURCE: 1.0}
PAUSES = GrowingPause(first_s=0.2, longest_s=0.4, growth=1.2)
"""Each look costs Ray and us some milliseconds of the processor, and a job takes seconds."""


def new_id() -> str:
    return f"contract-{uuid.uuid4().hex[:12]}--a01"


def submitted(gateway: Gateway, entrypoint: str, **more: object) -> str:
    submission = Submission(new_id(), entrypoint, **({"resources": ON_WORKER} | more))  # type: ignore[arg-type]
    gateway.submit(submission)
    return submission.submission_id


def ended(gateway: Gateway, submission_id: str) -> RayJob:
    return reaching(gateway, submission_id, *(status for status in RayStatus if status.is_terminal))


def reaching(gateway: Gateway, submission_id: str, *statuses: RayStatus) -> RayJob:
    job = until(lambda: gateway.job(submission_id), lambda job: job is not None and job.status in statuses, PAUSES)
    assert job is not None
    return job


def workers(gateway: Gateway) -> list[Node]:
    return [node for node in gateway.nodes() if node.may_train]
