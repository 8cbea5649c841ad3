"""Changes by users to existing jobs: names, tags, notes, keeping; and bulk operations."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, Literal

from app.conversion import object_keys
from app.conversion.model import JobRecord
from app.conversion.service.jobs import Jobs
from app.conversion.store import job_not_found
from app.kit.clock import now, to_text
from app.kit.errors import BadInput, ModelmillError, Unavailable
from app.kit.lease import Lease, hold
from app.kit.objects import ObjectMissing
from app.kit.objects.content import put_json, read_json

MOST_TAGS = 20
WAIT_S = 10.0
Verb = Literal["cancel", "delete", "tag", "keep", "unkeep"]
_STORED = ("name", "tags")
"""The fields that a repeated submission also has."""


@dataclass(frozen=True)
class BulkResult:
    done: tuple[str, ...]
    """The ids of the changed jobs."""
    problems: Mapping[str, ModelmillError]
    """The reasons for the other jobs."""


class Edits:
    """Also changes jobs that only the archive has.

    Args:
        lease_of: The lease of the edits of a job. A description is read and written: without it, one of two edits at
            once would be lost.
    """

    def __init__(self, jobs: Jobs, lease_of: Callable[[str], Lease]) -> None:
        self.jobs = jobs
        self.lease_of = lease_of

    def change(self, job_id: str, user: str, **values: Any) -> JobRecord:
        """Changes the fields that a user may change at any time.

        Args:
            job_id: The id of the job, in any state.
            user: Its owner.
            values: name, tags, notes, keep; what is omitted stays.

        Raises:
            JobNotFound: They have no such job, and none in the archive.
            Unavailable: Another edit of it does not end.
        """
        with self._alone(job_id):
            return self._change(self.jobs.known(job_id, user), values)

    def tag(self, job_id: str, user: str, *, add: Collection[str], remove: Collection[str]) -> JobRecord:
        """Adds tags to a job, and removes some.

        Args:
            add: existing ones keep their position.
            remove: missing ones are ignored.

        Raises:
            JobNotFound: It is not this user's, either.
            BadInput: There would be too many.
        """
        with self._alone(job_id):
            record = self.jobs.known(job_id, user)
            tags = tuple(dict.fromkeys([*(tag for tag in record.tags if tag not in remove), *add]))
            if len(tags) > MOST_TAGS:
                raise BadInput(f"Job {job_id} would have {len(tags)} tags.", hint=f"A job may have {MOST_TAGS}.")
            return self._change(record, {"tags": tags})

    def each(
        self, verb: Verb, job_ids: Iterable[str], user: str, *, add: Collection[str] = (), remove: Collection[str] = ()
    ) -> BulkResult:
        """Applies an operation to each job; a failure of one does not affect the others.

        Args:
            verb: The operation.
            job_ids: Each is taken once.
            user: Their owner.
            add: Tags, of the verb tag.
            remove: Tags, of the verb tag.
        """
        done, problems = list[str](), dict[str, ModelmillError]()
        for job_id in dict.fromkeys(job_ids):
            try:
                if verb == "cancel":
                    self.jobs.cancel(job_id, user)
                elif verb == "delete":
                    self.jobs.delete_known(self.jobs.known(job_id, user))
                elif verb == "tag":
                    self.tag(job_id, user, add=add, remove=remove)
                else:
                    self.change(job_id, user, keep=verb == "keep")
            except ModelmillError as error:
                problems[job_id] = error
            else:
                done.append(job_id)
        return BulkResult(tuple(done), problems)

    @contextmanager
    def _alone(self, job_id: str) -> Iterator[None]:
        with hold(self.lease_of(job_id), wait_s=WAIT_S) as is_ours:
            if not is_ours:
                raise Unavailable(f"Another edit of job {job_id[:64]} is in progress.", hint="Try again in a moment.")
            yield

    def _change(self, record: JobRecord, values: Mapping[str, Any]) -> JobRecord:
        if not values:
            return record
        job_id, user, descriptions = record.job_id, record.owner, self.jobs.descriptions
        if "keep" in values:
            descriptions.keep(job_id, is_kept=values["keep"])
        at = to_text(now())
        is_present = self.jobs.store.edit(job_id, user, values, at=at)
        is_archived = descriptions.read(job_id) is not None
        if not is_present and not is_archived:
            raise job_not_found(job_id)
        stored = {name: values[name] for name in _STORED if name in values}
        if stored:
            self._store(job_id, stored)
        changed = self.jobs.get(job_id, user) if is_present else replace(record, updated_at=at, **values)
        if is_archived:
            descriptions.write(changed)
            if not descriptions.is_owned(job_id, user):  # it was deleted meanwhile
                descriptions.remove(job_id)
                raise job_not_found(job_id)
            self.jobs.store.note_archived(user, job_id)
        return changed

    def _store(self, job_id: str, values: Mapping[str, Any]) -> None:
        """Updates the stored submission, so that after a reset the job is offered under the same name."""
        key, objects = object_keys.request(job_id), self.jobs.objects
        with suppress(ObjectMissing):
            request = {**read_json(objects, key), **values}
            put_json(objects, key, request)
