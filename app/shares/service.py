"""Links to jobs: created, listed, revoked, and opened by their holders."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import uuid4

from app.conversion import object_keys
from app.conversion.model import Artifact, JobRecord
from app.conversion.service import Conversion
from app.kit.access import EnabledOf
from app.kit.clock import from_text, to_text
from app.kit.errors import NotFound
from app.kit.sql import Database
from app.shares import store
from app.shares.errors import ShareNotFound, TooManyShares
from app.shares.model import Share, hash_of, new_key

MOST = 50
"""Links to one job. Ended ones are listed as long as there is room."""
NOTED_EVERY = timedelta(minutes=1)
NOT_SHARED = {object_keys.MODEL, object_keys.IMAGES}
"""Inputs of the job, which are not shared: only its results are."""


class Shares:
    """Links to jobs, also to those that only the archive has.

    Args:
        enabled_of: returns which of these users are enabled.
    """

    def __init__(self, database: Database, conversion: Conversion, *, enabled_of: EnabledOf) -> None:
        self.database = database
        self.conversion = conversion
        self.enabled_of = enabled_of

    def add(self, job_id: str, owner: str, *, days: int, label: str, now: datetime) -> tuple[Share, str]:
        """Create a link to a job.

        Args:
            days: how long it is valid.
            label: the user's name for it.

        Returns:
            The share and its key, which is returned only this once.

        Raises:
            JobNotFound: This user has no such job.
            TooManyShares: The job has the maximum number.
        """
        self.conversion.jobs.known(job_id, owner)
        key = new_key()
        until = to_text(now + timedelta(days=days))
        share = Share(uuid4().hex, owner, job_id, hash_of(key), label, to_text(now), until)
        with self.database.write() as conn:
            links = store.of_job(conn, owner, job_id)
            if len(links) >= MOST:
                ended = [link for link in links if not link.is_valid(share.created_at)]
                if not ended:
                    raise TooManyShares(f"There are {MOST} links to this job.", hint="Give one of them to more people.")
                store.remove(conn, ended[-1].share_id)
            store.add(conn, share)
        return share, key

    def of_job(self, job_id: str, owner: str) -> list[Share]:
        """Returns the links to a job, the newest first.

        Raises:
            JobNotFound: This user has no such job.
        """
        self.conversion.jobs.known(job_id, owner)
        with self.database.read() as conn:
            return store.of_job(conn, owner, job_id)

    def revoke(self, job_id: str, owner: str, share_id: str, *, now: datetime) -> None:
        """Revoke a link.

        Args:
            owner: of the job.
            share_id: of the link.
            now: the time of its end.

        Raises:
            ShareNotFound: There is no valid one.
        """
        with self.database.write() as conn:
            if not store.revoke(conn, owner, job_id, share_id, to_text(now)):
                raise _make_not_found()

    def open(self, share_id: str, key: str, *, now: datetime) -> tuple[Share, JobRecord]:
        """Returns the share and its job for a holder of the link.

        Raises:
            ShareNotFound: The link is not valid, the job is gone, or its user is disabled.
        """
        with self.database.read() as conn:
            share = store.get(conn, share_id)
        if share is None or not share.opens_with(key, to_text(now)) or not self.enabled_of([share.owner]):
            raise _make_not_found()
        try:
            record = self.conversion.jobs.known(share.job_id, share.owner)
        except NotFound:
            raise _make_not_found() from None
        if share.last_used_at is None or now - from_text(share.last_used_at) > NOTED_EVERY:
            with self.database.write() as conn:
                store.note_use(conn, share_id, to_text(now))
        return share, record

    def file(self, share_id: str, key: str, name: str, *, now: datetime) -> Artifact:
        """Returns a file of a shared job.

        Args:
            key: from the link.

        Raises:
            ShareNotFound: The link is not valid, or this file is not shared.
        """
        _, record = self.open(share_id, key, now=now)
        artifact = list_shared_files(record).get(name)
        if artifact is None:
            raise _make_not_found()
        return artifact


def list_shared_files(record: JobRecord) -> dict[str, Artifact]:
    """Returns by name everything that the job has made, but none of its inputs."""
    return {name: artifact for name, artifact in sorted(record.artifacts.items()) if name not in NOT_SHARED}


def _make_not_found() -> ShareNotFound:
    return ShareNotFound(
        "This link leads nowhere: it was mistyped, has expired or was revoked, or its job is gone.",
        hint="Ask the person who gave it to you for a new one.",
    )
