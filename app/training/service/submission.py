"""A new task: read and checked first, then put at the end of the queue in one transaction."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection

from app.homes.service import Homes
from app.kit.clock import to_text
from app.kit.errors import BadInput
from app.kit.sql import Database
from app.kit.text.json_values import JsonObject
from app.kit.web.idempotency import KeyReused, check_key
from app.training import store
from app.training.errors import BadSpec, TooManyTasks, TrainingOff
from app.training.model import NewTask, Node, Task, Workload
from app.training.model.sweep import Point
from app.training.service.checkpoints import resume_path
from app.training.service.demonstration import put_sample
from app.training.service.environments import Environments
from app.training.service.options import TrainingOptions
from app.training.service.submission_checks import check_paths, check_priority, check_resources
from app.training.spec import ConvertSpec, TaskSpec, read_spec
from app.training.spec.sweeps import SweepDocument
from app.training.spec.verl_settings import check_settings
from app.training.store import StoredSweep, TaskIdTaken
from app.training.workloads import demand_of

MAX_ID = 95
"""Ray keeps, and never lets go of, a submission whose id has other characters than a-z, 0-9 and -."""


SWEEP = "sweep"


def new_task_id(prefix: str, user: str, kind: str, now: datetime) -> str:
    """mvp2-alice-ppo-20251223-143201-7f3a: readable, and almost never the same twice; TaskSubmission then generates
    another.

    Args:
        prefix: the installation's prefix.
        kind: the workload, or SWEEP.
        now: with a time zone; UTC is written.
    """
    stamp = now.astimezone(UTC).strftime("%Y%m%d-%H%M%S")
    end = f"-{kind}-{stamp}-{secrets.token_hex(2)}"
    return f"{prefix}-{user.replace('.', '-').replace('_', '-')}"[: MAX_ID - len(end)] + end


CheckConversion = Callable[[str, Mapping[str, Any]], None]
"""Raises BadInput if a conversion would not accept this name and these options. The composition root implements it."""


@dataclass(frozen=True)
class Checked:
    """A task that may be submitted."""

    spec: TaskSpec
    text: str
    given: Mapping[str, Any]
    """What its environment makes of it: fields of the task."""
    point: Point = field(default_factory=dict)
    """Its values of the fields that its sweep varies."""


class SweepChanged(Exception):
    """Another process has added tasks to the sweep, or it was cancelled."""


TRIES = 8
"""Ids of one second differ in four characters at random."""
RETRY_AFTER_S = 60


@dataclass(frozen=True)
class TaskSubmission:
    options: TrainingOptions
    database: Database
    homes: Homes
    check_conversion: CheckConversion
    environments: Environments
    nodes: Callable[[str], Sequence[Node]]
    """Of the clusters that a task may choose, as they were last seen."""

    def submit(
        self, user: str, body: bytes, key: str | None, now: datetime, *, is_admin: bool = False
    ) -> tuple[Task, bool]:
        """See Tasks.submit.

        Args:
            key: the idempotency key; None: there is none.
        """
        self._require_on()
        if key is not None:
            check_key(key)
        spec, text = read_spec(body)  # by its text alone, as it will be read again whenever it is used
        if key is not None and (existing := self._find_existing(user, key, text)):
            return existing, False  # even if it could no longer be submitted
        given = self._check(user, spec, is_admin=is_admin)
        (task,), is_new = self._add(user, [Checked(spec, text, given)], key, now)
        return task, is_new

    def submit_sweep(self, user: str, document: SweepDocument, now: datetime, *, is_admin: bool = False) -> str:
        """Adds a sweep, with as many of its tasks as may wait or run at once, to the end of the queue: all or none.
        Every task that it names is checked.

        Args:
            user: its owner.
            document: the sweep.
            now: the time of submission.
            is_admin: As of Tasks.submit.

        Returns:
            The id of the sweep.
        """
        self._require_on()
        checked = [self._check_request(user, document, point, is_admin=is_admin) for point in document.points]
        sweep_id = new_task_id(self.options.task_prefix, user, SWEEP, now)
        sweep = StoredSweep(sweep_id, user, document.text, is_admin, to_text(now), metric=document.metric)
        self._add(user, checked[: document.concurrency], None, now, sweep=sweep)
        return sweep_id

    def extend(
        self, sweep: StoredSweep, document: SweepDocument, points: Sequence[Point], earlier: int, now: datetime
    ) -> list[Task]:
        """Adds further tasks of a sweep to the end of the queue. Raises like `submit`.

        Args:
            sweep: as it is stored.
            document: what it says.
            points: of the new ones.
            earlier: how many tasks the sweep has.
            now: the time of submission.

        Raises:
            SweepChanged: It has more, or was cancelled.
        """
        checked = [self._check_request(sweep.user_name, document, point, is_admin=sweep.is_admins) for point in points]
        return self._add(sweep.user_name, checked, None, now, sweep=sweep, earlier=earlier)[0]

    def _check_request(self, user: str, document: SweepDocument, point: Point, *, is_admin: bool) -> Checked:
        spec, text = read_spec(document.task_text(point).encode())
        return Checked(spec, text, self._check(user, spec, is_admin=is_admin), point)

    def _require_on(self) -> None:
        if not self.options.is_on:
            raise TrainingOff(
                "This installation trains nothing: it has no Ray cluster.",
                hint="The operator names one with MODELMILL_RAY_ADDRESS, or starts one with `modelmill up --train`.",
            )

    def _check(self, user: str, spec: TaskSpec, *, is_admin: bool) -> JsonObject:
        """What its environment makes of it: fields of the task."""
        given = self.environments.apply(user, spec, is_admin=is_admin)
        if self.environments.least_urgent(spec.environment or "") is None:
            check_priority(spec.priority, is_admin=is_admin)
        demand = demand_of(spec)
        if demand.resources:
            check_resources(demand, self.nodes(given["cluster"]), self.options.awaited_resources)
        check_settings(spec)
        put_sample(self.homes.options, spec)
        check_paths(self.homes.rules, user, spec)
        resume_path(self.database, self.homes, user, spec)
        if spec.convert is not None:
            self._check_conversion(spec.convert)
        return given

    def _check_conversion(self, spec: ConvertSpec) -> None:
        """Checks the conversion now, not after days of training."""
        try:
            self.check_conversion(spec.name, spec.options)
        except BadInput as error:
            problems_of_conversion = error.detail.get("problems") or [{"at": "options", "problem": error.message}]
            problems = [
                {"at": f"convert.{problem['at']}", "problem": problem["problem"]} for problem in problems_of_conversion
            ]
            message = f"{problems[0]['at']}: {problems[0]['problem']}"
            raise BadSpec(message, hint=error.hint, detail={"problems": problems}) from None

    def _find_existing(self, user: str, key: str, text: str) -> Task | None:
        with self.database.read() as conn:
            return _match_existing(store.by_idempotency_key(conn, user, key), text)

    def _add(
        self,
        user: str,
        new: Sequence[Checked],
        key: str | None,
        now: datetime,
        *,
        sweep: StoredSweep | None = None,
        earlier: int | None = None,
    ) -> tuple[list[Task], bool]:
        """With a key: the task that was submitted with it before, which is not new.

        Args:
            new: one, if there is a key.
            sweep: that they belong to.
            earlier: how many tasks it has; None: it is new.
        """
        for tries_left in reversed(range(TRIES)):
            new_tasks = [self._make_new_task(user, one, now, sweep.sweep_id if sweep else "") for one in new]
            try:
                with self.database.write() as conn:
                    store.lock_queue_of(conn, user)
                    if key is not None and (
                        existing := _match_existing(store.by_idempotency_key(conn, user, key), new[0].text)
                    ):
                        return [existing], False
                    self._check_count(conn, user, len(new_tasks))
                    if sweep is not None:
                        _note_sweep(conn, sweep, earlier)
                    return [store.add_task(conn, task, to_text(now), idempotency_key=key) for task in new_tasks], True
            except TaskIdTaken:
                if not tries_left:
                    raise
        raise AssertionError("the last try returns or raises")

    def _make_new_task(self, user: str, checked: Checked, now: datetime, sweep_id: str) -> NewTask:
        spec = checked.spec
        return NewTask(
            task_id=new_task_id(self.options.task_prefix, user, spec.workload.value, now),
            user=user,
            workload=spec.workload,
            spec_text=checked.text,
            demand=demand_of(spec),
            name=spec.name,
            backfill=spec.backfill,
            infra_retries=spec.restart_on_infra,
            max_wait_s=spec.max_wait_s,
            max_idle_s=spec.max_idle_s,
            sweep_id=sweep_id,
            sweep_point=checked.point,
            is_preemptible=spec.workload is not Workload.SCRIPT if spec.preemptible is None else spec.preemptible,
            **checked.given,
        )

    def _check_count(self, conn: Connection, user: str, new: int) -> None:
        limit, count = self.options.max_unended_per_user, store.count_unended(conn, user)
        if count + new > limit:
            raise TooManyTasks(
                f"You have {count} tasks that have not ended; more than {limit} are not taken.",
                hint="Wait until some have ended, or cancel some.",
                detail={"retry_after_s": RETRY_AFTER_S},
            )


def _note_sweep(conn: Connection, sweep: StoredSweep, earlier: int | None) -> None:
    """Stores a new sweep; an earlier one must not have changed meanwhile."""
    if earlier is None:
        store.add_sweep(conn, sweep)
        return
    current = store.sweep_of(conn, sweep.user_name, sweep.sweep_id)
    if (
        current is None
        or current.remark
        or len(store.tasks_by_sweep(conn, [sweep.sweep_id])[sweep.sweep_id]) != earlier
    ):
        raise SweepChanged


def _match_existing(existing: Task | None, text: str) -> Task | None:
    """The task of this key, if it equals the requested one."""
    if existing is not None and existing.spec_text != text:
        raise KeyReused(
            f"This Idempotency-Key came before with another body, as task {existing.task_id}.",
            hint="Send a new task with a new key, and the same task with the same body.",
            detail={"task_id": existing.task_id},
        )
    return existing
