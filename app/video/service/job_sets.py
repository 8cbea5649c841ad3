"""Users' job sets, and the jobs that follow from them."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Mapping
from datetime import datetime

from app.kit.clock import to_text
from app.kit.errors import BadInput, ModelmillError
from app.kit.sql import Database
from app.kit.text.labels import check_labels
from app.video import store
from app.video.errors import JobSetNotFound
from app.video.model.job import JobState, RestartPolicy, VideoJob
from app.video.model.job_set import JobSet, changes_of
from app.video.service.jobs import Jobs
from app.video.service.resources import Resources, videos_of
from app.video.service.submission import Submission, checked_job

AT_ONCE = 50
"""Maximum number of jobs submitted for a set in one pass; the next is seconds later."""
logger = logging.getLogger(__name__)


class JobSets:
    """Every verb takes the user: another user's set is as if there were none.

    Args:
        wake: has them looked at soon.
    """

    def __init__(self, database: Database, jobs: Jobs, resources: Resources, *, wake: Callable[[], None]) -> None:
        self.database = database
        self.jobs = jobs
        self.resources = resources
        self.wake = wake

    def create(self, owner: str, selector: Mapping[str, str], submission: Submission, *, now: datetime) -> JobSet:
        """Store a set; its jobs are submitted soon.

        Args:
            selector: the labels of the nodes.
            submission: what each job is; without a node, and without a video for all of a node.

        Raises:
            BadLabels: The selector is none; BadInput: it names no label.
            BadDag, BadStage, BadConstraint, UnknownPolicy, BadJobName: What each job would say.
        """
        labels = check_labels(selector)
        if not labels:
            raise BadInput("A job set needs at least one label.", hint="Select nodes as site=berlin.")
        checked = checked_job(self.jobs.catalogue, owner, submission, "", now)
        facts = {
            "dag": submission.dag,
            "constraint": submission.constraint,
            "policy": submission.policy,
            "restart_policy": submission.restart_policy.value if submission.restart_policy else "",
            "realtime": submission.realtime,
        }
        made = JobSet(str(uuid.uuid4()), owner, checked.name, to_text(now), labels, submission.video_id, facts)
        with self.database.write() as conn:
            store.add_set(conn, made)
        self.wake()
        return made

    def all(self, user: str) -> list[tuple[JobSet, list[VideoJob]]]:
        """Newest first, each with its jobs."""
        with self.database.read() as conn:
            return [(one, store.jobs_of_set(conn, one.set_id)) for one in store.all_sets(conn, user)]

    def get(self, user: str, set_id: str) -> tuple[JobSet, list[VideoJob]]:
        """Returns a set with its jobs, by node and video."""
        with self.database.read() as conn:
            known = store.get_set(conn, user, set_id)
            jobs = store.jobs_of_set(conn, set_id)
        if known is None:
            raise JobSetNotFound(f"There is no job set {set_id[:64]!r}.")
        return known, jobs

    def delete(self, user: str, set_id: str, *, now: datetime) -> None:
        """Forgets a set, and cancels its jobs, which are kept as others are."""
        self.get(user, set_id)
        with self.database.write() as conn:
            store.forget_set(conn, set_id)
        with self.database.read() as conn:
            left = [job for job in store.jobs_of_set(conn, set_id) if job.state is not JobState.DONE]
        for job in left:
            self.jobs.cancel(user, job.uid, now=now)

    def reconcile(self, now: datetime) -> None:
        """Submit the jobs that sets lack, and cancel those whose video is no longer theirs. Idempotent."""
        with self.database.read() as conn:
            sets = store.all_sets(conn)
        for one in sets:
            self._reconcile(one, now)

    def _reconcile(self, one: JobSet, now: datetime) -> None:
        nodes = [node for node in self.resources.nodes.access.seen_by(one.owner) if one.selects(node)]
        videos = {
            (node.name, video_id): bool(facts.get("refused"))
            for node in nodes
            for video_id, facts in videos_of(node, now).videos.items()
            if one.video_id in ("", video_id)
        }
        with self.database.read() as conn:
            changes = changes_of(videos, store.jobs_of_set(conn, one.set_id))
        for uid in changes.surplus:
            self.jobs.cancel(one.owner, uid, now=now)
        problem = ""
        openable_first = sorted(changes.missing, key=videos.__getitem__)
        for node, video_id in openable_first[:AT_ONCE]:
            try:
                self.jobs.submit(one.owner, _make_submission(one, node, video_id), now=now, set_id=one.set_id)
            except ModelmillError as error:
                problem = f"{error.message} {error.hint}".strip()
                break
        if problem != one.problem:
            with self.database.write() as conn:
                store.note_problem(conn, one.set_id, problem)


def _make_submission(one: JobSet, node: str, video_id: str) -> Submission:
    facts = one.submission
    return Submission(
        node,
        video_id,
        facts["dag"],
        facts["constraint"],
        facts["policy"],
        RestartPolicy(facts["restart_policy"]) if facts["restart_policy"] else None,
        bool(facts["realtime"]),
        name=f"{one.name} {node}/{video_id}"[:200] if one.name else "",
    )
