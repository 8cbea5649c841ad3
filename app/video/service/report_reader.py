"""Reads what the runner of a job reports."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from app.kit.errors import BadRequest
from app.kit.text.json_values import JsonObject
from app.video.model.drawn_video import read_state
from app.video.model.job import Ending
from app.video.model.reader import Reader
from app.video.model.report import Measurement

MOST_RESULTS = 1000
MOST_ROWS = 2000
MOST_CHARACTERS = 1 << 18
MOST_SILENT_S = 30 * 86400.0
LONGEST = {"node": 63, "stage": 64, "resolution": 16, "model": 64, "at": 32}
READER = Reader(BadRequest)


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


def parse_report(data: object, at: str) -> ParsedReport:
    """Reads what a runner reports.

    Raises:
        BadRequest: The report has another form, or is too long.
    """
    report = READER.mapping(data, "report", most=32)
    try:
        if len(json.dumps(report, allow_nan=False)) > MOST_CHARACTERS:
            raise READER.problem("report", f"has more than {MOST_CHARACTERS} characters")
    except (ValueError, TypeError) as error:
        raise READER.problem("report", f"is no JSON: {error}") from error
    uid = READER.text(report.get("job_uid"), "job_uid")
    seq = READER.integer(report.get("seq"), "seq", least=0, most=1 << 30)
    plan_result, flags, progress = report.get("plan_result"), report.get("flags"), report.get("progress")
    ending, silent_s, broadcast = report.get("ending"), report.get("silent_s"), report.get("broadcast")
    return ParsedReport(
        uid,
        seq,
        [_read_result(entry, f"results[{i}]") for i, entry in enumerate(_read_list(report, "results", MOST_RESULTS))],
        read_plan_result(plan_result) if plan_result is not None else None,
        [READER.name(flag, "flags") for flag in _read_list(report, "flags", 16)] if flags is not None else None,
        min(MOST_SILENT_S, max(0.0, READER.number(silent_s, "silent_s"))) if silent_s is not None else None,
        read_state(broadcast, READER) if broadcast is not None else None,
        Ending(READER.choice(ending, "ending", tuple(Ending))) if ending else None,
        _read_text(report, "reason"),
        [
            _read_measurement(entry, f"profile[{i}]", at)
            for i, entry in enumerate(_read_list(report, "profile", MOST_ROWS))
        ],
        min(1.0, max(0.0, READER.number(progress, "progress"))) if progress is not None else None,
        _read_text(report, "note"),
    )


def _read_list(report: Mapping[str, Any], key: str, most: int) -> list[Any]:
    return READER.sequence(report[key], key, most=most) if report.get(key) is not None else []


def _read_result(data: object, place: str) -> JsonObject:
    result = READER.mapping(data, place, most=64)
    READER.integer(result.get("n_loop"), f"{place}.n_loop", least=0, most=1 << 30)
    return result


def read_plan_result(data: object) -> JsonObject:
    """Reads a plan_result whose values are numbers, or numbers by stage; always with `delay`.

    Raises:
        BadRequest: It has others.
    """
    result = {"delay": {}, **READER.mapping(data, "plan_result", most=64)}
    for key, value in result.items():
        place = f"plan_result.{key}"
        if isinstance(value, Mapping):
            for name, number in READER.mapping(value, place, most=256).items():
                READER.number(number, f"{place}.{name}")
        elif value is not None:
            READER.number(value, place)
    return {key: value for key, value in result.items() if value is not None}


def _read_measurement(data: object, place: str, at: str) -> Measurement:
    row = READER.mapping(data, place, most=32)
    try:
        measurement = Measurement.from_json(row)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise READER.problem(place, "is no measurement", f"It lacks or mistakes {error}.") from error
    for key in ("node", "stage", "resolution"):
        READER.text(getattr(measurement, key), f"{place}.{key}", most=LONGEST[key])
    for key in ("model", "at"):
        if getattr(measurement, key):
            READER.text(getattr(measurement, key), f"{place}.{key}", most=LONGEST[key])
    for key in ("model_id", "delay_s", "bytes", "quality", "frames"):
        READER.number(getattr(measurement, key), f"{place}.{key}")
    return replace(measurement, at=measurement.at or at)


def _read_text(report: Mapping[str, Any], key: str) -> str:
    value = report.get(key) or ""
    if not isinstance(value, str):
        raise READER.problem(key, "is no text")
    return value.replace("\0", "")[:2000]
