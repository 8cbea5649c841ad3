"""Users' video jobs. Every operation takes the user: another user's job is treated as missing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, replace
from datetime import datetime

from sqlalchemy import Connection

from app.kit.clock import to_text
from app.kit.errors import Conflict, TooMany
from app.kit.sql import Database
from app.kit.sql.pages import cut_page, read_cursor
from app.model_registry.model import Usage
from app.video import store
from app.video.errors import JobEnded, VideoJobNotFound
from app.video.model.constraint import read_constraint
from app.video.model.job import JOBS, Ending, JobState, VideoJob
from app.video.scheduling.registry import policy_of
from app.video.service.catalogue import Catalogue
from app.video.service.counters import ENDED
from app.video.service.resources import Resources
from app.video.service.submission import (
    Submission,
    check_media_server,
    check_path,
    check_source,
    checked_job,
    job_name,
    numbered,
    source_facts,
    usual_restart_policy,
)
from app.video.store import DecisionRecord, JobEvent, StoredJob

BARRED = "Its user may no longer use this video, or its node: an administrator has changed that."


@dataclass(eq=False)
class Jobs:
    """Submits, changes, ends and forgets them.

    Args:
        wake: Makes the controller check the job of this uid soon; an empty uid: the stage hosts.
        announce: Notifies viewers of the job of this uid.
        request_plan: Makes the scheduler plan the job of this uid soon; with the reason, such as `constraint`.
        on_forget: Each forgets what is stored elsewhere of the job of this uid.
        max_per_user: How many jobs of a user may be in progress.
    """

    database: Database
    catalogue: Catalogue
    resources: Resources
    _: KW_ONLY
    wake: Callable[[str], None]
    announce: Callable[[str], None]
    request_plan: Callable[[str, str], None]
    on_forget: Sequence[Callable[[str], None]] = ()
    max_per_user: int

    def submit(self, owner: str, submission: Submission, *, now: datetime, set_id: str = "") -> VideoJob:
        """Stores a new job, after an error nothing.

        Args:
            set_id: of the job set that it is for.

        Raises:
            VideoNotFound: The user may use no such video.
            VideoRefused: The node does not open it.
            BadDag, BadStage, BadConstraint, UnknownPolicy: See `checked_job`.
            TooMany: The user has as many jobs that have not ended as allowed.
            Conflict: The uid or the path of its broadcast is taken, or the set has a job on this video.
        """
        video = self.resources.video_of(owner, submission.node, submission.video_id, now)
        check_source(submission.video_id, video)
        job = replace(checked_job(self.catalogue, owner, submission, video.node, now), set_id=set_id)
        facts = video.videos[job.video_id]
        job = replace(job, generator_output=source_facts(facts))
        if submission.restart_policy is None:
            job = replace(job, restart_policy=usual_restart_policy(job, facts))
        check_media_server(job, video)
        try:
            with self.database.write() as conn:
                check_path(conn, job)
                if store.count_unended(conn, owner) >= self.max_per_user:
                    raise TooMany(
                        f"You have {self.max_per_user} video jobs that have not ended.",
                        hint="Cancel one of them, or wait for its end.",
                    )
                stored = numbered(conn, job)
                store.add_job(conn, stored)
        except store.UidTaken:
            raise Conflict(
                f"The number of {submission.uid} was given to a job already.",
                hint="Leave unique_job_id out, and it gets one of its own.",
            ) from None
        self._notify(stored.job.uid)
        self.wake("")
        return stored.job

    def get(self, user: str, uid: str) -> VideoJob:
        with self.database.read() as conn:
            return _require_owned(store.get(conn, uid), user, uid).job

    def page(
        self, user: str, *, state: JobState | None = None, text: str = "", cursor: str | None = None, limit: int = 50
    ) -> tuple[list[VideoJob], str | None]:
        """A page of the user's jobs, newest first, and the cursor of the next page.

        Args:
            text: Part of the name, the uid, the node or the video.
            cursor: Of the previous page; None: the first page.

        Raises:
            BadInput: The cursor was not made here.
        """
        with self.database.read() as conn:
            rows = store.page(conn, user, store.JobFilter(state, text), before=read_cursor(cursor), limit=limit + 1)
        return cut_page([stored.job for stored in rows], limit, lambda job: (job.created_at, job.uid))

    def constrain(self, user: str, uid: str, constraint: object, *, now: datetime) -> VideoJob:
        """Changes the constraint of a job. It applies from the next plan on, which is requested at once.

        Args:
            constraint: as the user sent it, any JSON value.

        Raises:
            VideoJobNotFound, JobEnded: Nothing to constrain.
            BadConstraint: It is invalid.
        """
        demanded = read_constraint(constraint)
        with self.locked(user, uid) as (conn, _):
            written = demanded.to_json()
            store.change(conn, uid, user_constraint=written)
            message = f"Demanded: delay {_format_range(demanded.lo, demanded.hi)}, quality {demanded.quality:g}."
            store.add_event(conn, uid, to_text(now), type="Constraint", message=message)
        return self._apply_change(user, uid, "constraint")

    def choose(self, user: str, uid: str, policy: str, *, now: datetime) -> VideoJob:
        """Sets another policy for a job; the state of the previous one is dropped.

        Args:
            policy: name of one.
            now: the time of the change.

        Raises:
            VideoJobNotFound, JobEnded: Nothing to schedule.
            UnknownPolicy: None has this name.
        """
        policy_of(policy)
        with self.locked(user, uid) as (conn, stored):
            if policy == stored.job.policy:
                return stored.job
            store.change(conn, uid, policy=policy, memory={})
            message = f"Scheduled by {policy}, and no longer by {stored.job.policy}."
            store.add_event(conn, uid, to_text(now), type="Policy", message=message)
        return self._apply_change(user, uid, "policy")

    def rename(self, user: str, uid: str, name: str) -> VideoJob:
        """Names a job, also one that has ended; an empty name removes it.

        Raises:
            VideoJobNotFound: The user has no such job.
            BadJobName: It is too long, or no line of text.
        """
        chosen = job_name(name)
        with self.database.write() as conn:
            _require_owned(store.lock(conn, uid), user, uid)
            store.change(conn, uid, name=chosen)
        self.announce(uid)
        return self.get(user, uid)

    def cancel(self, user: str, uid: str, *, now: datetime) -> VideoJob:
        """Cancels the job; its node is notified when it is connected. An ended job stays unchanged."""
        with self.database.write() as conn:
            stored = _require_owned(store.lock(conn, uid), user, uid)
            if stored.job.state is JobState.DONE:
                return stored.job
            store.enter(
                conn, stored, JobState.DONE, at=to_text(now), message="Cancelled by its user.", ending=Ending.CANCELLED
            )
        ENDED.labels(Ending.CANCELLED.value).inc()
        self._notify(uid)
        return self.get(user, uid)

    def bar(self, uid: str, *, now: datetime) -> None:
        """Ends a job whose user may no longer use its video."""
        with self.database.write() as conn:
            stored = store.lock(conn, uid)
            if stored is None or stored.job.state is JobState.DONE:
                return
            store.enter(conn, stored, JobState.DONE, at=to_text(now), message=BARRED, ending=Ending.CANCELLED)
        ENDED.labels(Ending.CANCELLED.value).inc()
        self._notify(uid)

    def delete(self, user: str, uid: str) -> None:
        """Deletes all data of an ended job.

        Raises:
            VideoJobNotFound: There is none.
            Conflict: It has not ended.
        """
        if self.get(user, uid).state is not JobState.DONE:
            raise Conflict(f"The job {uid} has not ended.", hint="Cancel it first.")
        self.forget([uid])
        self.announce(uid)

    def forget(self, uids: Collection[str]) -> None:
        """Deletes all data of these jobs, and withdraws the orders of their nodes."""
        for uid in uids:
            for forget in self.on_forget:
                forget(uid)
        nodes, changed_nodes = self.resources.nodes, set[str]()
        with self.database.write() as conn:
            for uid in uids:
                changed_nodes |= set(nodes.withdraw(conn, JOBS, uid))
            store.forget(conn, uids)
        for node in changed_nodes:
            nodes.notify(node)

    def events(self, user: str, uid: str) -> list[JobEvent]:
        """Oldest first."""
        with self.database.read() as conn:
            _require_owned(store.get(conn, uid), user, uid)
            return store.events_of(conn, uid)

    def decisions(self, user: str, uid: str, *, limit: int = 100) -> list[DecisionRecord]:
        """Newest first."""
        with self.database.read() as conn:
            _require_owned(store.get(conn, uid), user, uid)
            return store.decisions_of(conn, uid, limit)

    def count(self, user: str) -> int:
        """Those that are not DONE."""
        with self.database.read() as conn:
            return store.count_unended(conn, user)

    def usages(self, files: Collection[str]) -> list[Usage]:
        """Those, anybody's, that are not DONE and have a stage that runs a model of one of these sha256."""
        with self.database.read() as conn:
            rows = store.list_unended(conn)
        return [
            Usage("video job", stored.job.uid, stored.job.owner)
            for stored in rows
            if any(stage.has_model(files) for stage in stored.job.stages)
        ]

    def cancel_all(self, user: str, *, now: datetime) -> None:
        """Cancels the user's jobs that have not ended."""
        with self.database.read() as conn:
            rows = store.list_unended(conn, owner=user)
        for stored in rows:
            self.cancel(user, stored.job.uid, now=now)

    @contextmanager
    def locked(self, user: str, uid: str) -> Iterator[tuple[Connection, StoredJob]]:
        """Yields a job that has not ended; until the block ends nobody else changes it.

        Raises:
            VideoJobNotFound: There is none.
            JobEnded: It has ended.
        """
        with self.database.write() as conn:
            stored = _require_owned(store.lock(conn, uid), user, uid)
            if stored.job.state is JobState.DONE:
                raise JobEnded(f"The job {uid} has ended.", hint="Submit it again.")
            yield conn, stored

    def _apply_change(self, user: str, uid: str, why: str) -> VideoJob:
        self.request_plan(uid, why)
        self._notify(uid)
        return self.get(user, uid)

    def _notify(self, uid: str) -> None:
        self.wake(uid)
        self.announce(uid)


def job_not_found(uid: str) -> VideoJobNotFound:
    return VideoJobNotFound(
        f"There is no video job {uid[:64]!r}.", hint="The page of video jobs shows the existing ones."
    )


def _require_owned(stored: StoredJob | None, user: str, uid: str) -> StoredJob:
    if stored is None or stored.job.owner != user:
        raise job_not_found(uid)
    return stored


def _format_range(lo: float, hi: float) -> str:
    return f"up to {hi:g} s" if lo < 0 else f"{lo:g} to {hi:g} s"
