"""Processes the reports of runners: results, the plan's performance, profiles, their end."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import redis
from sqlalchemy import Connection

from app.kit.clock import to_text
from app.kit.errors import BadRequest
from app.kit.redis.time_series import TimeSeries
from app.kit.sql import Database
from app.results import store as result_store
from app.results.model.frame_result import FrameRecord, moment_of
from app.results.model.rule_evaluation import size_in
from app.results.service import Rules
from app.video import store
from app.video.model.drawn_video import read_state
from app.video.model.job import RESULTS_KEPT, Ending, JobState, VideoJob
from app.video.model.reader import Reader
from app.video.model.report import JobReport, Measurement
from app.video.service.counters import ENDED, count_result
from app.video.service.jobs import Jobs, job_not_found
from app.video.service.producers import producer_of_job
from app.video.store import StoredJob

SERIES = 720
"""Points of a plot, one every POINT_EVERY_S."""
POINT_EVERY_S = 2.0
MOST_RESULTS = 1000
MOST_ROWS = 2000
MOST_CHARACTERS = 1 << 18
MOST_SILENT_S = 30 * 86400.0
OFFLINE, NODE_FULL, UNDELIVERED = "offline", "node_full", "undelivered"
NODE_FLAGS = frozenset({OFFLINE, NODE_FULL, UNDELIVERED})
"""Flags that the node itself has given rise to, not the runner."""
SINK_STUCK = "sink_stuck"
LONGEST = {"node": 63, "stage": 64, "resolution": 16, "model": 64, "at": 32}
_READER = Reader(BadRequest)


@dataclass(frozen=True)
class SeriesPoint:
    """The performance of a job at one time: a point of its plots."""

    at: str
    plan_result: Mapping[str, Any]
    plan: Mapping[str, Any] | None
    """As Plan.to_json; None if the results are those of another one than the newest."""
    hi: float
    """The longest delay that the constraint allows, seconds."""


@dataclass(frozen=True)
class ParsedReport:
    """A report in the right form. A field is None if the report does not have it."""

    uid: str
    seq: int
    results: Sequence[Mapping[str, Any]]
    plan_result: Mapping[str, Any] | None
    flags: Sequence[str] | None
    silent_s: float | None
    broadcast: Mapping[str, Any] | None
    ending: Ending | None
    reason: str
    profile: Sequence[Measurement]
    progress: float | None
    note: str


def plots_in(client: redis.Redis) -> TimeSeries:
    """The points of all jobs' plots, see Point."""
    return TimeSeries(client, "video:series", most=SERIES, every_s=POINT_EVERY_S)


class Reports:
    """Processes the reports of runners.

    Args:
        plots: points of delay, accuracy and rate.
        rules: evaluates detections.
        announce: notifies viewers of a job.
        wake_sinks: makes waiting entries be delivered soon.
    """

    def __init__(
        self,
        database: Database,
        jobs: Jobs,
        plots: TimeSeries,
        rules: Rules,
        *,
        announce: Callable[[str], None],
        wake_sinks: Callable[[], None],
    ) -> None:
        """Takes in nothing yet."""
        self.database = database
        self.jobs = jobs
        self.plots = plots
        self.rules = rules
        self.announce = announce
        self.wake_sinks = wake_sinks

    def take(self, report: JobReport, *, node: str = "", user: str = "", now: datetime) -> None:
        """POST /node/sync_job_result: stores what the runner of a job reports. One that was stored already is ignored.

        Args:
            node: that sends it; empty: its user does.
            user: whose job it must be, where no node is named.

        Raises:
            BadRequest: It has not the right form.
            VideoJobNotFound: This node does not run the job, or it is not this user's.
        """
        parsed = parse_report(report, to_text(now))
        with self.database.write() as conn:
            stored = require_authorized(store.lock(conn, parsed.uid), parsed.uid, node=node, user=user)
            if parsed.profile and not node:
                raise _READER.problem("profile", "is for nodes to tell", "What is measured holds for everybody's jobs.")
            if stored.job.state is JobState.DONE or parsed.seq <= stored.report_seq:
                return
            added = self._write(conn, stored, parsed, now)
            is_awaited = bool(added) and result_store.has_sinks(conn, parsed.uid)
        job = stored.job
        for result in added:
            count_result(result, job.constraint.hi)
        if parsed.plan_result:
            plan = job.plan.to_json() if job.plan and job.is_of_plan(parsed.plan_result) else None
            self.plots.add(job.uid, vars(SeriesPoint(to_text(now), parsed.plan_result, plan, job.constraint.hi)))
        if parsed.ending:
            ENDED.labels(parsed.ending.value).inc()
            self.jobs.wake(job.uid)
            self.jobs.wake("")
        if is_awaited:
            self.wake_sinks()
        self.announce(job.uid)

    def series(self, uid: str) -> list[SeriesPoint]:
        """Oldest first. They are lost with Redis."""
        return [SeriesPoint(**point) for point in self.plots.all(uid)]

    def measurements(self, *, node: str = "", stage: str = "") -> list[Measurement]:
        """The profile: by node, stage, model_id, resolution."""
        with self.database.read() as conn:
            return store.measurements(conn, node=node, stage=stage)

    def _write(
        self, conn: Connection, stored: StoredJob, report: ParsedReport, now: datetime
    ) -> list[Mapping[str, Any]]:
        """Stores a report; returns its new results."""
        job, at = stored.job, to_text(now)
        added = sorted(
            (result for result in report.results if result["n_loop"] > job.n_loop), key=lambda result: result["n_loop"]
        )
        records = [FrameRecord(row["n_loop"], moment_of(row, now), row) for row in added]
        size = size_in(stored.generator_output)
        taken = self.rules.take(conn, producer_of_job(job), records, size=size, by_pts=not job.realtime, now=now)
        columns: dict[str, Any] = {"report_seq": report.seq, "reported_at": at}
        if added:
            rows = [record.row for record in taken.records]
            columns |= {"results": [*job.results, *rows][-RESULTS_KEPT:], "n_loop": added[-1]["n_loop"]}
        if report.plan_result is not None:
            columns["plan_result"] = report.plan_result
        columns["no_signal_since"] = _find_silent_since(job, report, now)
        if report.broadcast is not None:
            columns["broadcast"] = report.broadcast
        if report.progress is not None:
            columns["progress"] = report.progress
        store.change(conn, job.uid, **columns)
        if report.flags is not None:
            trouble = _sink_trouble(conn, job, at)
            store.change_flags(conn, job, {*report.flags, *(NODE_FLAGS & set(job.flags)), *trouble}, at=at)
        store.put_measurements(conn, report.profile)
        if report.note:
            store.add_event(conn, job.uid, at, type="Note", message=report.note)
        if report.ending is not None:
            message = report.reason or f"Its runner says: {report.ending}."
            store.enter(conn, stored, JobState.DONE, at=at, message=message, ending=report.ending)
        return added


def _sink_trouble(conn: Connection, job: VideoJob, at: str) -> set[str]:
    """The flag of a job with a stuck sink; its begin and its end are events."""
    trouble = result_store.sink_trouble(conn, job.uid)
    if bool(trouble) != (SINK_STUCK in job.flags):
        message = trouble or "No sink is stuck any more."
        store.add_event(conn, job.uid, at, type="SinkStuck" if trouble else "SinkRecovered", message=message)
    return {SINK_STUCK} if trouble else set()


def _find_silent_since(job: VideoJob, report: ParsedReport, now: datetime) -> str | None:
    """Since when the source delivers no picture: as in the first report of it, because reports are delayed."""
    if report.silent_s is None:
        return None
    return job.no_signal_since or to_text(now - timedelta(seconds=report.silent_s))


def require_authorized(stored: StoredJob | None, uid: str, *, node: str, user: str) -> StoredJob:
    """Returns a job, if the reporter is allowed to report on it.

    Args:
        stored: None: there is none of this uid.
        node: on whose video it must be; empty: `user` counts.

    Raises:
        VideoJobNotFound: It is not theirs, or there is none.
    """
    is_theirs = stored is not None and (stored.job.node == node if node else stored.job.owner == user)
    if stored is None or not is_theirs:
        raise job_not_found(uid)
    return stored


def parse_report(data: object, at: str) -> ParsedReport:
    """Reads what a runner reports.

    Raises:
        BadRequest: The report has another form, or is too long.
    """
    report = _READER.mapping(data, "report", most=32)
    try:
        if len(json.dumps(report, allow_nan=False)) > MOST_CHARACTERS:
            raise _READER.problem("report", f"has more than {MOST_CHARACTERS} characters")
    except (ValueError, TypeError) as error:
        raise _READER.problem("report", f"is no JSON: {error}") from error
    uid = _READER.text(report.get("job_uid"), "job_uid")
    seq = _READER.integer(report.get("seq"), "seq", least=0, most=1 << 30)
    plan_result, flags, progress = report.get("plan_result"), report.get("flags"), report.get("progress")
    ending, silent_s, broadcast = report.get("ending"), report.get("silent_s"), report.get("broadcast")
    return ParsedReport(
        uid,
        seq,
        [_read_result(entry, f"results[{i}]") for i, entry in enumerate(_read_list(report, "results", MOST_RESULTS))],
        read_plan_result(plan_result) if plan_result is not None else None,
        [_READER.name(flag, "flags") for flag in _read_list(report, "flags", 16)] if flags is not None else None,
        min(MOST_SILENT_S, max(0.0, _READER.number(silent_s, "silent_s"))) if silent_s is not None else None,
        read_state(broadcast, _READER) if broadcast is not None else None,
        Ending(_READER.choice(ending, "ending", tuple(Ending))) if ending else None,
        _read_text(report, "reason"),
        [
            _read_measurement(entry, f"profile[{i}]", at)
            for i, entry in enumerate(_read_list(report, "profile", MOST_ROWS))
        ],
        min(1.0, max(0.0, _READER.number(progress, "progress"))) if progress is not None else None,
        _read_text(report, "note"),
    )


def _read_list(report: Mapping[str, Any], key: str, most: int) -> list[Any]:
    return _READER.sequence(report[key], key, most=most) if report.get(key) is not None else []


def _read_result(data: object, place: str) -> dict[str, Any]:
    result = _READER.mapping(data, place, most=64)
    _READER.integer(result.get("n_loop"), f"{place}.n_loop", least=0, most=1 << 30)
    return result


def read_plan_result(data: object) -> dict[str, Any]:
    """Reads a plan_result whose values are numbers, or numbers by stage; always with `delay`.

    Raises:
        BadRequest: It has others.
    """
    result = {"delay": {}, **_READER.mapping(data, "plan_result", most=64)}
    for key, value in result.items():
        place = f"plan_result.{key}"
        if isinstance(value, Mapping):
            for name, number in _READER.mapping(value, place, most=256).items():
                _READER.number(number, f"{place}.{name}")
        elif value is not None:
            _READER.number(value, place)
    return {key: value for key, value in result.items() if value is not None}


def _read_measurement(data: object, place: str, at: str) -> Measurement:
    row = _READER.mapping(data, place, most=32)
    try:
        measurement = Measurement.from_json(row)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise _READER.problem(place, "is no measurement", f"It lacks or mistakes {error}.") from error
    for key in ("node", "stage", "resolution"):
        _READER.text(getattr(measurement, key), f"{place}.{key}", most=LONGEST[key])
    for key in ("model", "at"):
        if getattr(measurement, key):
            _READER.text(getattr(measurement, key), f"{place}.{key}", most=LONGEST[key])
    for key in ("model_id", "delay_s", "bytes", "quality", "frames"):
        _READER.number(getattr(measurement, key), f"{place}.{key}")
    return replace(measurement, at=measurement.at or at)


def _read_text(report: Mapping[str, Any], key: str) -> str:
    value = report.get(key) or ""
    if not isinstance(value, str):
        raise _READER.problem(key, "is no text")
    return value.replace("\0", "")[:2000]
