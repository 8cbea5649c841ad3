"""What runners report: results, how the plan does, profiles, their end."""

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
from app.video import store
from app.video.model.job import RESULTS_KEPT, Ending, JobState, VideoJob
from app.video.model.profile import Measurement
from app.video.model.reader import Reader
from app.video.model.report import JobReport
from app.video.service.counters import ENDED, count_result
from app.video.service.jobs import Jobs, no_such_job
from app.video.store import Kept

SERIES = 720
"""Points of a plot, one every POINT_EVERY_S."""
POINT_EVERY_S = 2.0
MOST_RESULTS = 1000
MOST_ROWS = 2000
MOST_CHARACTERS = 1 << 18
MOST_SILENT_S = 30 * 86400.0
OFFLINE = "offline"
LONGEST = {"node": 63, "stage": 64, "resolution": 16, "model": 64, "at": 32}
_READER = Reader(BadRequest)


@dataclass(frozen=True)
class Point:
    """plan_result at a moment, of which a plot takes what it shows, with the plan's conf and the constraint's hi."""

    at: str
    plan_result: Mapping[str, Any]
    plan: Mapping[str, Any] | None
    hi: float


@dataclass(frozen=True)
class Read:
    """A report that has the right form. None: nothing is said of that."""

    uid: str
    seq: int
    results: Sequence[Mapping[str, Any]]
    plan_result: Mapping[str, Any] | None
    flags: Sequence[str] | None
    silent_s: float | None
    ending: Ending | None
    reason: str
    profile: Sequence[Measurement]
    progress: float | None
    note: str


def plots_in(client: redis.Redis) -> TimeSeries:
    """The points of all jobs' plots, see Point."""
    return TimeSeries(client, "video:series", most=SERIES, every_s=POINT_EVERY_S)


class Reports:
    def __init__(self, database: Database, jobs: Jobs, plots: TimeSeries, *, announce: Callable[[str], None]) -> None:
        self.database = database
        self.jobs = jobs
        self.plots = plots
        self.announce = announce

    def take(self, report: JobReport, *, node: str = "", user: str = "", now: datetime) -> None:
        """POST /node/sync_job_result. Twice does no harm; nothing is sent on. Raises BadRequest, VideoJobNotFound when
        this node does not run it."""
        found = _read(report, to_text(now))
        with self.database.write() as conn:
            kept = checked(store.lock(conn, found.uid), found.uid, node=node, user=user)
            if found.profile and not node:
                raise _READER.wrong("profile", "is for nodes to tell", "What is measured holds for everybody's jobs.")
            if kept.job.state is JobState.DONE or found.seq <= kept.report_seq:
                return
            added = self._write(conn, kept, found, now)
        job = kept.job
        for result in added:
            count_result(result, job.constraint.hi)
        if found.plan_result:
            plan = job.plan.to_json() if job.plan else None
            self.plots.add(job.uid, vars(Point(to_text(now), found.plan_result, plan, job.constraint.hi)))
        if found.ending:
            ENDED.labels(found.ending.value).inc()
            self.jobs.kick(job.uid)
            self.jobs.kick("")
        self.announce(job.uid)

    def series(self, uid: str) -> list[Point]:
        """Oldest first. Forgotten when Redis is."""
        return [Point(**point) for point in self.plots.all(uid)]

    def measurements(self, *, node: str = "", stage: str = "") -> list[Measurement]:
        """The profile: by node, stage, model_id, resolution."""
        with self.database.read() as conn:
            return store.measurements(conn, node=node, stage=stage)

    def _write(self, conn: Connection, kept: Kept, found: Read, now: datetime) -> list[Mapping[str, Any]]:
        """The results that were not known."""
        job, at = kept.job, to_text(now)
        added = sorted((one for one in found.results if one["n_loop"] > job.n_loop), key=lambda one: one["n_loop"])
        columns: dict[str, Any] = {"report_seq": found.seq, "reported_at": at}
        if added:
            columns |= {"results": [*job.results, *added][-RESULTS_KEPT:], "n_loop": added[-1]["n_loop"]}
        if found.plan_result is not None:
            columns["plan_result"] = found.plan_result
        if found.flags is not None:
            columns["flags"] = sorted({*found.flags, *({OFFLINE} & set(job.flags))})
        columns["no_signal_since"] = _silent_since(job, found, now)
        if found.progress is not None:
            columns["progress"] = found.progress
        store.change(conn, job.uid, **columns)
        store.put_measurements(conn, found.profile)
        if found.note:
            store.add_event(conn, job.uid, at, type="Note", message=found.note)
        if found.ending is not None:
            said = found.reason or f"Its runner says: {found.ending}."
            store.enter(conn, kept, JobState.DONE, at=at, message=said, ending=found.ending)
        return added


def _silent_since(job: VideoJob, found: Read, now: datetime) -> str | None:
    """As it was told first: each report is a while on its way."""
    if found.silent_s is None:
        return None
    return job.no_signal_since or to_text(now - timedelta(seconds=found.silent_s))


def checked(kept: Kept | None, uid: str, *, node: str, user: str) -> Kept:
    """A node speaks of jobs on its own videos, a user of their own. Raises VideoJobNotFound."""
    is_theirs = kept is not None and (kept.job.node == node if node else kept.job.owner == user)
    if kept is None or not is_theirs:
        raise no_such_job(uid)
    return kept


def _read(data: object, at: str) -> Read:
    """Raises BadRequest."""
    given = _READER.mapping(data, "report", most=32)
    try:
        if len(json.dumps(given, allow_nan=False)) > MOST_CHARACTERS:
            raise _READER.wrong("report", f"has more than {MOST_CHARACTERS} characters")
    except (ValueError, TypeError) as error:
        raise _READER.wrong("report", f"is no JSON: {error}") from error
    uid = _READER.text(given.get("job_uid"), "job_uid")
    seq = _READER.whole(given.get("seq"), "seq", least=0, most=1 << 30)
    plan_result, flags, progress = given.get("plan_result"), given.get("flags"), given.get("progress")
    ending, silent_s = given.get("ending"), given.get("silent_s")
    return Read(
        uid,
        seq,
        [_result(one, f"results[{i}]") for i, one in enumerate(_listed(given, "results", MOST_RESULTS))],
        read_plan_result(plan_result) if plan_result is not None else None,
        [_READER.name(flag, "flags") for flag in _listed(given, "flags", 16)] if flags is not None else None,
        min(MOST_SILENT_S, max(0.0, _READER.number(silent_s, "silent_s"))) if silent_s is not None else None,
        Ending(_READER.choice(ending, "ending", tuple(Ending))) if ending else None,
        _text(given, "reason"),
        [_measurement(one, f"profile[{i}]", at) for i, one in enumerate(_listed(given, "profile", MOST_ROWS))],
        min(1.0, max(0.0, _READER.number(progress, "progress"))) if progress is not None else None,
        _text(given, "note"),
    )


def _listed(given: Mapping[str, Any], key: str, most: int) -> list[Any]:
    return _READER.listing(given[key], key, most=most) if given.get(key) is not None else []


def _result(data: object, place: str) -> dict[str, Any]:
    result = _READER.mapping(data, place, most=64)
    _READER.whole(result.get("n_loop"), f"{place}.n_loop", least=0, most=1 << 30)
    return result


def read_plan_result(data: object) -> dict[str, Any]:
    """delay is there in any case, and what is a number or by stage a number is that."""
    found = {"delay": {}, **_READER.mapping(data, "plan_result", most=64)}
    for key, value in found.items():
        place = f"plan_result.{key}"
        if isinstance(value, Mapping):
            for name, number in _READER.mapping(value, place, most=256).items():
                _READER.number(number, f"{place}.{name}")
        elif value is not None:
            _READER.number(value, place)
    return {key: value for key, value in found.items() if value is not None}


def _measurement(data: object, place: str, at: str) -> Measurement:
    row = _READER.mapping(data, place, most=32)
    try:
        found = Measurement.from_json(row)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise _READER.wrong(place, "is no measurement", f"It lacks or mistakes {error}.") from error
    for key in ("node", "stage", "resolution"):
        _READER.text(getattr(found, key), f"{place}.{key}", most=LONGEST[key])
    for key in ("model", "at"):
        if getattr(found, key):
            _READER.text(getattr(found, key), f"{place}.{key}", most=LONGEST[key])
    for key in ("model_id", "delay_s", "bytes", "quality", "frames"):
        _READER.number(getattr(found, key), f"{place}.{key}")
    return replace(found, at=found.at or at)


def _text(given: Mapping[str, Any], key: str) -> str:
    value = given.get(key) or ""
    if not isinstance(value, str):
        raise _READER.wrong(key, "is no text")
    return value.replace("\0", "")[:2000]
