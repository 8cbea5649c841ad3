"""Decides whether one more job may be taken in: how many may be under way at once, in all and for each user.

A look before the costly checks of a submission spares them; the word that counts is spoken when the record is created,
in one step with its creation.
"""

from __future__ import annotations

import math

from app.conversion.errors import ToolchainUnserved, TooManyJobs
from app.conversion.model import JobRecord
from app.conversion.options import ToolchainName
from app.conversion.service.estimates import Estimates
from app.conversion.store import JobStore
from app.kit.queue.message import OutgoingMessage
from app.kit.redis.records import Answer, JobLimit
from app.settings import Settings

UNKNOWN_PACE_S = 60
LEAST_S, MOST_S = 5, 900


class Admission:
    def __init__(self, settings: Settings, store: JobStore, estimates: Estimates) -> None:
        self.settings = settings
        self.store = store
        self.estimates = estimates

    def check(self, owner: str, toolchain: ToolchainName) -> None:
        """Raises TooManyJobs when there is no room now: there may be none any more a moment later. ToolchainUnserved
        when the job would go to a worker that cannot do it."""
        stage = self.estimates.unserved(toolchain.value)
        if stage is not None:
            raise ToolchainUnserved(
                f"No worker of stage {stage.value} has the toolchain {toolchain.value} now.",
                hint="Choose another toolchain, or have the operator start a worker that has it; one that is just "
                "starting is there in some seconds.",
                detail={"toolchain": toolchain.value, "stage": stage.value},
            )
        full = self.store.full(self._room(owner))
        if full is not None:
            raise self._refusal(full, toolchain)

    def admit(self, record: JobRecord, *, score: float, letter: OutgoingMessage | None = None) -> None:
        """Create the record and send its letter, or raise TooManyJobs with nothing created."""
        answer = self.store.create(record, score=score, room=self._room(record.owner), letter=letter)
        if answer in (Answer.FULL, Answer.FULL_FOR_GROUP):
            raise self._refusal(answer, record.options.toolchain)

    def _room(self, owner: str) -> JobLimit:
        return JobLimit(self.settings.max_active_jobs, self.settings.max_active_jobs_per_user, owner)

    def _refusal(self, answer: Answer, toolchain: ToolchainName) -> TooManyJobs:
        again_s = self._again_s(toolchain)
        detail = {"retry_after_s": again_s, "is_own": answer is Answer.FULL_FOR_GROUP}
        if answer is Answer.FULL_FOR_GROUP:
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

    def _again_s(self, toolchain: ToolchainName) -> int:
        """When the next job will have ended, as far as the past tells."""
        pace_s = self.estimates.pace_s(toolchain.value)
        return UNKNOWN_PACE_S if pace_s is None else math.ceil(min(max(pace_s, LEAST_S), MOST_S))
