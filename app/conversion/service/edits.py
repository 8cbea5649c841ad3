"""Changes by users to existing jobs: names, tags, notes, keeping; and bulk operations."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

from app.conversion import object_keys
from app.conversion.model import JobRecord
from app.conversion.service.jobs import Jobs
from app.conversion.store import job_not_found
from app.kit.clock import now, to_text
from app.kit.errors import BadInput, ModelmillError
from app.kit.objects import ObjectMissing
from app.kit.objects.content import put_json, read_json

MOST_TAGS = 20
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
    def __init__(self, jobs: Jobs) -> None:
        self.jobs = jobs

    def change(self, job_id: str, user: str, **values: Any) -> JobRecord:
        """Changes the fields that a user may change at any time.

        Args:
            job_id: The id of the job, in any state.
            user: Its owner.
            values: name, tags, notes, keep; what is omitted stays.

        Raises:
            JobNotFound: They have no such job.
        """
        record = self.jobs.get(job_id, user)
        if not values:
            return record
        if "keep" in values:
            self._keep(job_id, is_kept=values["keep"])
        if not self.jobs.store.edit(job_id, user, values, at=to_text(now())):
            raise job_not_found(job_id)
        stored = {name: values[name] for name in _STORED if name in values}
        if stored:
            self._store(job_id, stored)
        changed = self.jobs.get(job_id, user)
        if self.jobs.descriptions.read(job_id) is not None:
            self.jobs.descriptions.write(changed)
            self.jobs.store.note_archived(user, job_id)
        return changed

    def tag(self, job_id: str, user: str, *, add: Collection[str], remove: Collection[str]) -> JobRecord:
        """Adds tags to a job, and removes some.

        Args:
            add: existing ones keep their position.
            remove: missing ones are ignored.

        Raises:
            JobNotFound: It is not this user's, either.
            BadInput: There would be too many.
        """
        record = self.jobs.get(job_id, user)
        tags = tuple(dict.fromkeys([*(tag for tag in record.tags if tag not in remove), *add]))
        if len(tags) > MOST_TAGS:
            raise BadInput(f"Job {job_id} would have {len(tags)} tags.", hint=f"A job may have {MOST_TAGS}.")
        return self.change(job_id, user, tags=tags)

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
                    self.jobs.delete(job_id, user)
                elif verb == "tag":
                    self.tag(job_id, user, add=add, remove=remove)
                else:
                    self.change(job_id, user, keep=verb == "keep")
            except ModelmillError as error:
                problems[job_id] = error
            else:
                done.append(job_id)
        return BulkResult(tuple(done), problems)

    def _keep(self, job_id: str, *, is_kept: bool) -> None:
        if is_kept:
            self.jobs.objects.put(object_keys.kept(job_id), [])
        else:
            self.jobs.objects.delete(object_keys.kept(job_id))

    def _store(self, job_id: str, values: Mapping[str, Any]) -> None:
        """Updates the stored submission, so that after a reset the job is offered under the same name."""
        key, objects = object_keys.request(job_id), self.jobs.objects
        with suppress(ObjectMissing):
            request = {**read_json(objects, key), **values}
            put_json(objects, key, request)
