"""Admits jobs: within the limits of active jobs, in total and per user, and if a worker can run them."""

from __future__ import annotations

import math

from app.conversion.errors import ToolchainUnserved, TooManyJobs
from app.conversion.model import JobRecord
from app.conversion.options import ToolchainName
from app.conversion.service.estimates import Estimates
from app.conversion.store import JobStore
from app.kit.redis.records import CreateAnswer, JobLimit, OutgoingMessage
from app.settings import Settings

UNKNOWN_PACE_S = 60
LEAST_S, MOST_S = 5, 900


class Admission:
    def __init__(self, settings: Settings, store: JobStore, estimates: Estimates) -> None:
        self.settings = settings
        self.store = store
        self.estimates = estimates

    def check(self, owner: str, toolchain: ToolchainName) -> None:
        """Checks whether a job would be admitted now; this may change at any time.

        Raises:
            TooManyJobs: The limit of active jobs is reached.
            ToolchainUnserved: See check_served.
        """
        self.check_served(toolchain)
        full = self.store.full(self._get_limit(owner))
        if full is not None:
            raise self._make_refusal(full, toolchain)

    def check_served(self, toolchain: ToolchainName) -> None:
        """Checks that a worker could run the job.

        Raises:
            ToolchainUnserved: None could.
        """
        stage = self.estimates.unserved(toolchain.value)
        if stage is not None:
            raise ToolchainUnserved(
                f"No worker of stage {stage.value} has the toolchain {toolchain.value} now.",
                hint="Choose another toolchain, or have the operator start a worker that has it; one that is just "
                "starting is there in some seconds.",
                detail={"toolchain": toolchain.value, "stage": stage.value},
            )

    def admit(self, record: JobRecord, *, score: float, message: OutgoingMessage | None = None) -> None:
        """Creates the record and sends its message, or raises TooManyJobs with nothing created."""
        answer = self.store.create(record, score=score, room=self._get_limit(record.owner), message=message)
        if answer in (CreateAnswer.FULL, CreateAnswer.FULL_FOR_GROUP):
            raise self._make_refusal(answer, record.options.toolchain)

    def _get_limit(self, owner: str) -> JobLimit:
        return JobLimit(self.settings.max_active_jobs, self.settings.max_active_jobs_per_user, owner)

    def _make_refusal(self, answer: CreateAnswer, toolchain: ToolchainName) -> TooManyJobs:
        again_s = self._estimate_retry_s(toolchain)
        detail = {"retry_after_s": again_s, "is_own": answer is CreateAnswer.FULL_FOR_GROUP}
        if answer is CreateAnswer.FULL_FOR_GROUP:
            limit = self.settings.max_active_jobs_per_user
            return TooManyJobs(
                f"You have {limit} unfinished jobs, and more are not accepted.",
                hint=f"Try again in about {again_s} s, or cancel a job that you do not need.",
                detail={**detail, "limit": limit},
            )
        limit = self.settings.max_active_jobs
        return TooManyJobs(
            f"There are {limit} unfinished jobs here, and more are not accepted.",
            hint=f"Try again in about {again_s} s.",
            detail={**detail, "limit": limit},
        )

    def _estimate_retry_s(self, toolchain: ToolchainName) -> int:
        """Seconds until the next job is expected to end, estimated from finished jobs."""
        pace_s = self.estimates.pace_s(toolchain.value)
        return UNKNOWN_PACE_S if pace_s is None else math.ceil(min(max(pace_s, LEAST_S), MOST_S))
