"""Processes the reports of runners: results, the plan's performance, profiles, their end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from datetime import datetime, timedelta
from typing import Any

import redis
from sqlalchemy import Connection

from app.kit.clock import to_text
from app.kit.redis.time_series import TimeSeries
from app.kit.sql import Database
from app.results import store as result_store
from app.results.model.frame_result import FrameRecord, moment_of
from app.results.model.rule_evaluation import size_in
from app.results.service import Rules
from app.video import store
from app.video.model.job import NO_SIGNAL, RESULTS_KEPT, SILENCE, JobState, VideoJob
from app.video.model.report import JobReport, Measurement
from app.video.service.counters import ENDED, count_result
from app.video.service.jobs import Jobs, job_not_found
from app.video.service.producers import producer_of_job
from app.video.service.report_reader import READER, ParsedReport, parse_report
from app.video.store import StoredJob

SERIES = 720
"""Points of a plot, one every POINT_EVERY_S."""
POINT_EVERY_S = 2.0
OFFLINE, NODE_FULL, UNDELIVERED = "offline", "node_full", "undelivered"
NODE_FLAGS = frozenset({OFFLINE, NODE_FULL, UNDELIVERED})
"""Flags that the node itself has given rise to, not the runner."""
SINK_STUCK = "sink_stuck"


@dataclass(frozen=True)
class SeriesPoint:
    """The performance of a job at one time: a point of its plots."""

    at: str
    plan_result: Mapping[str, Any]
    plan: Mapping[str, Any] | None
    """As Plan.to_json; None if the results are those of another one than the newest."""
    hi: float
    """The longest delay that the constraint allows, seconds."""


def plots_in(client: redis.Redis) -> TimeSeries:
    """The points of all jobs' plots, see Point."""
    return TimeSeries(client, "video:series", most=SERIES, every_s=POINT_EVERY_S)


@dataclass(eq=False)
class Reports:
    """Processes the reports of runners.

    Args:
        plots: points of delay, accuracy and rate.
        rules: evaluates detections.
        announce: notifies viewers of a job.
        wake_sinks: makes waiting entries be delivered soon.
    """

    database: Database
    jobs: Jobs
    plots: TimeSeries
    rules: Rules
    _: KW_ONLY
    announce: Callable[[str], None]
    wake_sinks: Callable[[], None]

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
                raise READER.problem("profile", "is for nodes to tell", "What is measured holds for everybody's jobs.")
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
        size = size_in(job.generator_output)
        taken = self.rules.take(conn, producer_of_job(job), records, size=size, now=now)
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
            silence = _find_silence(report, job.silence if NO_SIGNAL in report.flags else "")
            flags = {*report.flags, *(NODE_FLAGS & set(job.flags)), *({SINK_STUCK} if trouble else ())}
            store.change_flags(conn, job, flags, at=at, reasons={NO_SIGNAL: silence, SINK_STUCK: trouble})
            if silence != job.silence:
                store.change(conn, job.uid, reason="", silence=silence)
        store.put_measurements(conn, report.profile)
        if report.note:
            store.add_event(conn, job.uid, at, type="Note", message=report.note)
        if report.ending is not None:
            message = report.reason or f"Its runner says: {report.ending}."
            store.enter(conn, stored, JobState.DONE, at=at, message=message, ending=report.ending)
        return added


def _sink_trouble(conn: Connection, job: VideoJob, at: str) -> str:
    """What is wrong with a job's stuck sinks; empty: none is. Its begin and its end are events."""
    trouble = result_store.sink_trouble(conn, job.uid)
    if bool(trouble) != (SINK_STUCK in job.flags):
        message = trouble or "No sink is stuck any more."
        store.add_event(conn, job.uid, at, type="SinkStuck" if trouble else "SinkRecovered", message=message)
    return trouble


def _find_silence(report: ParsedReport, before: str) -> str:
    """Why the source delivers no picture, as the last note about it says; otherwise `before`."""
    return next((line for line in reversed(report.note.splitlines()) if line.startswith(SILENCE)), before)


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
