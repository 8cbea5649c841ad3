"""Sweeps: made at once, submitted as there is room, and seen as one table."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from uuid import uuid4

from pydantic import ValidationError

from app.conversion.errors import JobFinished
from app.conversion.model import JobError, JobRecord, StageState
from app.conversion.options import Options
from app.conversion.service import Conversion
from app.conversion.service.batches import BatchModel, Variant
from app.conversion.service.submissions import Submission
from app.kit.clock import from_text, now, to_text
from app.kit.errors import BadInput, ModelmillError, NotFound
from app.kit.sql import Database
from app.kit.sql.pages import cut_page, read_cursor
from app.kit.text.json_values import JsonObject
from app.sweeps import store
from app.sweeps.errors import SweepNotFound, SweepTooLarge, TooManySweeps
from app.sweeps.model import BEFORE_VARIANT, Entry, EntryState, RowAnswer, Sweep, best_of, merge_values

MOST_JOBS = 200
MOST_SWEEPS = 500
"""For one user, who then has to delete old ones."""
AT_ONCE = 200
"""Entries of one user that are submitted in one go."""
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class SweepView:
    sweep: Sweep
    rows: tuple[RowAnswer, ...]

    @property
    def ended(self) -> int:
        """How many jobs have ended."""
        return sum(row.status in _OVER for row in self.rows)

    @property
    def has_ended(self) -> bool:
        return self.ended == len(self.rows)


_OVER = {"COMPLETED", "FAILED", "REFUSED", "CANCELLED", "GONE"}


class Sweeps:
    """The sweeps of users.

    Args:
        wake: has pending entries submitted soon.
    """

    def __init__(self, database: Database, conversion: Conversion, *, wake: Callable[[], None]) -> None:
        self.database = database
        self.conversion = conversion
        self.wake = wake

    def begin(
        self,
        owner: str,
        models: Sequence[BatchModel],
        variants: Sequence[Variant],
        *,
        name: str,
        tags: tuple[str, ...],
        no_cache: bool = False,
    ) -> str:
        """Starts a sweep of every model with every variant, and returns its id. Nothing is created unless all of them
        are valid options.

        Args:
            models: uploads, each with the options that all its jobs have.
            variants: sets of options, each with its name.
            tags: of every job.

        Raises:
            SweepTooLarge: It would have more than MOST_JOBS.
            BadInput: Options are not valid, or a toolchain is not installed.
            TooManySweeps: The user has the maximum number.
        """
        if len(models) * len(variants) > MOST_JOBS:
            raise SweepTooLarge(
                f"{len(models)} models with {len(variants)} sets of options are {len(models) * len(variants)} jobs.",
                hint=f"One sweep may have {MOST_JOBS}.",
            )
        sweep = Sweep(uuid4().hex, owner, name, tags, to_text(now()), no_cache)
        pairs = [(model, variant) for model in _name_apart(models) for variant in variants]
        entries = [
            Entry(
                sweep.sweep_id,
                position,
                str(uuid4()),
                model.name,
                model.model_key,
                model.quant_key,
                variant.name,
                self._build_options(model, variant).model_dump(mode="json"),
            )
            for position, (model, variant) in enumerate(pairs)
        ]
        with self.database.write() as conn:
            if store.count(conn, owner) >= MOST_SWEEPS:
                raise TooManySweeps(f"You have {MOST_SWEEPS} sweeps.", hint="Delete one that is not needed any more.")
            store.add(conn, sweep, entries)
        self.wake()
        return sweep.sweep_id

    def page(
        self, owner: str, *, cursor: str | None = None, limit: int
    ) -> tuple[list[tuple[Sweep, dict[str, int]]], str | None]:
        """Returns sweeps, the newest first, each with the number of its jobs by state; and the cursor of the next
        page."""
        with self.database.read() as conn:
            rows = store.page(conn, owner, before=read_cursor(cursor, " "), limit=limit + 1)
            sweeps, following = cut_page(rows, limit, lambda sweep: (sweep.created_at, sweep.sweep_id), " ")
            counts = store.states(conn, [sweep.sweep_id for sweep in sweeps])
        return [(sweep, counts[sweep.sweep_id]) for sweep in sweeps], following

    def view(self, owner: str, sweep_id: str) -> SweepView:
        """Returns a sweep with its table.

        Raises:
            SweepNotFound: This user has none with this id.
        """
        sweep, entries = self._get(owner, sweep_id)
        records = {record.job_id: record for record in self.conversion.jobs.several([e.job_id for e in entries], owner)}
        rows = [_row_of(entry, records.get(entry.job_id)) for entry in entries]
        best = best_of(rows)
        return SweepView(sweep, tuple(replace(row, is_best=row.position in best) for row in rows))

    def get(self, owner: str, sweep_id: str) -> Sweep:
        """Returns a sweep.

        Raises:
            SweepNotFound: This user has none with this id.
        """
        return self._get(owner, sweep_id)[0]

    def cancel(self, owner: str, sweep_id: str) -> SweepView:
        """Cancels its running jobs and pending entries.

        Raises:
            SweepNotFound: This user has none with this id.
        """
        _, entries = self._get(owner, sweep_id)
        with self.database.write() as conn:
            for entry in entries:
                store.change(conn, entry, EntryState.CANCELLED)
        for record in self.conversion.jobs.several([entry.job_id for entry in entries], owner):
            if not record.is_terminal:
                try:
                    self.conversion.jobs.cancel(record.job_id, owner)
                except (JobFinished, NotFound):  # it ended in the meantime
                    continue
        return self.view(owner, sweep_id)

    def delete(self, owner: str, sweep_id: str) -> None:
        """Deletes the sweep with its pending entries; its jobs stay.

        Raises:
            SweepNotFound: This user has none with this id.
        """
        with self.database.write() as conn:
            if not store.delete(conn, owner, sweep_id):
                raise _make_not_found(sweep_id)

    def submit_pending(self) -> int:
        """Submits pending entries as far as there is room. Can be repeated safely.

        Returns:
            How many became jobs.
        """
        with self.database.read() as conn:
            waiting = store.pending(conn, AT_ONCE)
        count, full = 0, set[str]()
        for sweep, entry in waiting:
            if sweep.owner in full:
                continue
            try:
                self._submit(sweep, entry)
            except ModelmillError as error:
                if error.can_retry:  # there is no room, or something is unreachable
                    full.add(sweep.owner)
                    logger.info("A job of sweep %s waits: %s", sweep.sweep_id, error.message)
                else:
                    self._note(entry, EntryState.REFUSED, error)
            else:
                count += 1
        return count

    def note_end(self, record: JobRecord) -> None:
        """Stores the result of an ended job in the table of its sweep, if it has one."""
        if record.sweep_id:
            with self.database.write() as conn:
                store.note_result(conn, record.job_id, result_of(record))

    def _submit(self, sweep: Sweep, entry: Entry) -> None:
        if not self.conversion.jobs.several([entry.job_id], sweep.owner):
            self.conversion.submissions.submit(
                Submission(
                    entry.model_key,
                    entry.quant_key,
                    sweep.owner,
                    name=f"{entry.model_name}{BEFORE_VARIANT}{entry.variant}"[:200],
                    tags=sweep.tags,
                    options=Options.model_validate(entry.options),
                    sweep_id=sweep.sweep_id,
                    job_id=entry.job_id,
                    no_cache=sweep.no_cache,
                )
            )
        if not self._note(entry, EntryState.SUBMITTED):  # it was cancelled or deleted in the meantime
            self.conversion.jobs.cancel(entry.job_id, sweep.owner)

    def _note(self, entry: Entry, state: EntryState, error: ModelmillError | None = None) -> bool:
        with self.database.write() as conn:
            return store.change(conn, entry, state, error)

    def _build_options(self, model: BatchModel, variant: Variant) -> Options:
        try:
            options = Options.model_validate(merge_values(model.options, variant.options))
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            place = ".".join(map(str, first["loc"]))
            raise BadInput(
                f"{model.name} with {variant.name}: options.{place}: {first['msg']}",
                hint="Options are those of a job; a variant names what it changes.",
            ) from None
        self.conversion.submissions.check_toolchain(options)
        return options

    def _get(self, owner: str, sweep_id: str) -> tuple[Sweep, list[Entry]]:
        with self.database.read() as conn:
            sweep = store.get(conn, owner, sweep_id)
            if sweep is None:
                raise _make_not_found(sweep_id)
            return sweep, store.entries_of(conn, sweep_id)


def result_of(record: JobRecord) -> JsonObject:
    """Returns what the table shows of a job."""
    took_s = None
    if record.finished_at:
        took_s = (from_text(record.finished_at) - from_text(record.created_at)).total_seconds()
    return {
        "status": record.status.value,
        "progress": record.progress,
        "verdict": record.verdict.value if record.verdict else None,
        "snr_db": record.snr_db,
        "cosine": record.stages["bie"].summary.get("cosine"),
        "size_bytes": record.size_bytes,
        "latency_ms": record.latency_ms,
        "rule_db": record.rule_db,
        "took_s": took_s,
        "problem": record.error.reason if record.error else "",
        "error": _describe_error(record.error) if record.error else None,
        "is_waiting": record.current.state is StageState.QUEUED,
    }


def _describe_error(error: JobError) -> JsonObject:
    return {"code": error.code, "message": error.reason, "hint": error.hint, "detail": error.detail}


_NO_NUMBERS = ("verdict", "snr_db", "cosine", "size_bytes", "latency_ms", "rule_db", "took_s")
_NO_RESULT: JsonObject = {"progress": 0, **dict.fromkeys(_NO_NUMBERS)}


def _name_apart(models: Sequence[BatchModel]) -> list[BatchModel]:
    """Numbers models of the same name that are different uploads, so that they are not taken for one model."""
    uploads: dict[str, list[str]] = {}
    named = []
    for model in models:
        same = uploads.setdefault(model.name, [])
        if model.model_key not in same:
            same.append(model.model_key)
        number = same.index(model.model_key) + 1
        named.append(replace(model, name=f"{model.name} ({number})") if number > 1 else model)
    return named


def _row_of(entry: Entry, record: JobRecord | None) -> RowAnswer:
    if record is not None:
        values = result_of(record)
    elif entry.result is not None:
        values = {**_NO_RESULT, **entry.result}
    else:
        status = "GONE" if entry.state is EntryState.SUBMITTED else entry.state.value
        values = {**_NO_RESULT, "status": status, "problem": entry.problem}
    return RowAnswer(entry.position, entry.job_id, entry.model_name, entry.variant, **values, is_best=False)


def _make_not_found(sweep_id: str) -> SweepNotFound:
    return SweepNotFound(f"There is no sweep {sweep_id[:64]}.", hint="GET /sweeps lists yours.")
