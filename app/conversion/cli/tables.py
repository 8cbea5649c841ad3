"""Reports and records as tables. Pure: JSON in, rich renderables out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

from rich.markup import escape
from rich.table import Table
from rich.text import Text

from app.conversion.goals import is_cross_validated
from app.kit.cli.tables import table_of
from app.kit.clock import age
from app.kit.text.json_values import JsonObject
from app.kit.text.plain_text import short_duration

COLORS = {"COMPLETED": "green", "FAILED": "red"}
SHOWN_AT_MOST = 20


def quality_table(report: JsonObject) -> Table:
    """Float against int8 at every output, from bie.json."""
    quality = report.get("quality") or {}
    outputs = quality.get("outputs") or []
    table = table_of("output", "SNR mean dB", "min", "p5", "cosine mean", "min", "pictures")
    table.title = "Quality: int8 against float"
    for column in table.columns[1:]:
        column.justify = "right"
    for output in outputs[:SHOWN_AT_MOST]:
        snr, cosine = output.get("snr_db") or {}, output.get("cosine") or {}
        table.add_row(
            escape(str(output.get("name", ""))),
            *(_format_number(snr.get(key), 1) for key in ("mean", "min", "p5")),
            *(_format_number(cosine.get(key), 4) for key in ("mean", "min")),
            str(snr.get("n", "")),
        )
    if len(outputs) > SHOWN_AT_MOST:
        table.caption = f"{len(outputs) - SHOWN_AT_MOST} more outputs in bie.json"
    return table


def candidates_table(report: JsonObject) -> Table:
    """What a search for a goal has tried, from bie.json; a mark for those on the Pareto front of SNR, or of the task's
    loss where that is the goal."""
    from app.conversion.service.quality.candidates import Measure, measures_of, pareto, read_search

    search, goal = read_search(report), report.get("goal") or {}
    tried = search.candidates if search else ()
    measure: Measure = next(iter(measures_of(tried, goal.get("kind"))), "snr")
    front = {one.id for one in pareto(tried, measure)}
    losses = {one.id: [_format_number(one.drop_percent, 1)] for one in tried if "task" in measures_of(tried)}
    figures = ("SNR dB", "lowest", *(["task loss %"] if losses else []), "int8 %", "kB", "ms")
    table = table_of("id", "candidate", *figures, "")
    table.title = "Candidates"
    if goal.get("text"):
        table.title += f" for {goal['text']}, which is {'reached' if goal.get('is_reached') else 'not reached'}"
    table.columns[-1].no_wrap = True
    for column in table.columns[2:-1]:
        column.justify = "right"
    for one in tried:
        why = "taken" if one.is_taken else one.verdict_code.replace("_", " ")
        table.add_row(
            str(one.id),
            escape(one.name),
            _format_number(one.snr_db, 1),
            _format_number(one.snr_min_db, 1),
            *losses.get(one.id, []),
            _format_number(None if one.int8_share is None else 100 * one.int8_share, 0),
            _format_number(None if one.size_bytes is None else one.size_bytes / 1000, 0),
            _format_number(one.latency_ms, 2),
            f"{why} *" if one.id in front else why,
        )
    table.caption = f"*: on the Pareto front of {'task loss' if measure == 'task' else 'SNR'}, latency and size"
    if any(one.steps for one in tried):
        table.caption += "; --start bie.json:ID begins with another one"
    return table


def facts_of_quality(report: JsonObject) -> Iterator[str]:
    """Lines under the table: verdict, size, latency, calibration."""
    verdict, size, latency = (report.get(key) or {} for key in ("verdict", "size", "latency_ms"))
    if verdict:
        worst = _describe_worst(verdict, is_crossed=is_cross_validated(report.get("judgement") or {}))
        yield f"verdict: {_format_verdict(verdict)} ({worst}; rule: {verdict.get('rule')})"
    if size.get("float_bytes") and size.get("int8_bytes"):
        yield f"size: {_format_kilobytes(size['float_bytes'])} float, {_format_kilobytes(size['int8_bytes'])} int8"
    if latency.get("float") and latency.get("int8"):
        yield f"latency on this CPU: {latency['float']:g} ms float, {latency['int8']:g} ms int8"
    task = (report.get("judgement") or {}).get("task") or (report.get("quality") or {}).get("task") or {}
    if task.get("float_agreement") is not None:
        yield f"answers: {task['kind']} {task['float_agreement']:.3f} of the float model's, {task['n']} pictures"
    for row in report.get("labels") or ():
        place = "not used to choose ranges" if row["are_unseen"] else "some were used to choose ranges"
        values = f"{row['float']:.3f} float, {row['int8']:.3f} int8"
        yield f"{row['metric']}: {values}, {row['n']} labeled pictures ({place})"
    calibration = report.get("calibration") or {}
    if calibration.get("samples"):
        yield f"calibrated on {calibration['samples']} samples by {calibration.get('method', 'the vendor')}"
    for warning in report.get("warnings") or []:
        yield f"warning: {warning}"


def _describe_worst(verdict: JsonObject, *, is_crossed: bool) -> str:
    """Returns what the verdict says of the worst output. is_crossed: each picture was judged by a model of its own."""
    text = f"worst output {_format_number(verdict.get('snr_db'), 1)} dB"
    if verdict.get("judged_on"):
        lowest = _format_number(verdict["snr_min_db"], 1)
        origin = ", each judged by a model calibrated without it:" if is_crossed else " not used for calibration:"
        text += f", lowest of {verdict['judged_on']} pictures{origin} {lowest} dB"
    if verdict.get("uncounted"):
        text += f", not counted: {verdict['uncounted']} on which the output is nearly silent in float and 8 bits"
    if verdict.get("weak"):
        text += f", noise held against a hundredth of the usual power on {verdict['weak']} with a weak output"
    return text


def _format_verdict(verdict: JsonObject) -> str:
    word = "passed" if verdict.get("passed") else "NOT passed"
    word += ", for nothing was quantized" if verdict.get("nothing_quantized") else ""
    return word + (", on pictures in which the float model finds nothing" if verdict.get("shows_nothing") else "")


def jobs_table(records: Iterable[JsonObject], now: datetime) -> Table:
    table = table_of("id", "name", "status", "stage", "progress", "toolchain", "age")
    for record in records:
        options = record.get("options") or {}
        table.add_row(
            record["job_id"][:8],
            escape(record.get("name") or ""),
            _format_status(record),
            record["stage"],
            f"{record.get('progress', 0)} %",
            escape(" ".join(filter(None, (options.get("toolchain", "host"), options.get("platform"))))),
            age(record["created_at"], now),
        )
    return table


def archive_table(rows: Iterable[JsonObject]) -> Table:
    """Jobs of the archive, as GET /archive lists them."""
    table = table_of("id", "name", "verdict", "SNR dB", "target", "finished", "kept")
    for row in rows:
        table.add_row(
            row["job_id"][:8],
            escape(row["name"]),
            row["verdict"] or "–",
            _format_number(row["snr_db"], 1),
            " ".join(filter(None, (row["toolchain"], row["platform"]))),
            row["finished_at"][:19].replace("T", " "),
            "yes" if row["is_kept"] else "",
        )
    return table


def _format_status(record: JsonObject) -> Text:
    if record["status"] == "COMPLETED" and record.get("verdict") == "BELOW_RULE":
        return Text("COMPLETED, below the rule", style="yellow")
    return Text(record["status"], style=COLORS.get(record["status"], ""))


def stage_lines(record: JsonObject) -> Iterator[str]:
    """A line for each stage: state, progress, time, worker."""
    for step, stage in record["stages"].items():
        facts = [
            f"{stage['progress']} %",
            _format_duration(stage),
            stage.get("worker") or "",
            stage.get("message") or "",
        ]
        facts.append(format_reuse(stage))
        yield f"{step:<5} {stage['state']:<8} {'  '.join(filter(None, facts))}".rstrip()


def format_reuse(stage: JsonObject) -> str:
    """Whose work it is, where another job had done it; else empty."""
    if not stage.get("reused_from"):
        return ""
    return f"reused from job {stage['reused_from'][:8]}, saved {short_duration(stage['saved_s'])}"


def plain(data: JsonObject, indent: str = "") -> Iterator[str]:
    """Any facts, readable: scalars as `key: value`, what is nested below it."""
    for key, value in data.items():
        if isinstance(value, dict) and value and any(isinstance(entry, dict | list) for entry in value.values()):
            yield f"{indent}{key}:"
            yield from plain(value, indent + "  ")
        elif isinstance(value, list) and value and all(isinstance(entry, dict) for entry in value):
            yield f"{indent}{key}:"
            yield from (f"{indent}  {_shorten(entry)}" for entry in value[:SHOWN_AT_MOST])
            if len(value) > SHOWN_AT_MOST:
                yield f"{indent}  and {len(value) - SHOWN_AT_MOST} more (all of them with --json)"
        else:
            yield f"{indent}{key}: {_shorten(value)}"


def _shorten(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_shorten(entry)}" for key, entry in value.items()) or "none"
    if isinstance(value, list):
        return "[" + ", ".join(map(_shorten, value)) + "]"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None else str(value)


def _format_duration(stage: JsonObject) -> str:
    if not stage.get("started_at"):
        return ""
    end = stage.get("finished_at") or datetime.now(UTC).isoformat()
    seconds = (datetime.fromisoformat(end) - datetime.fromisoformat(stage["started_at"])).total_seconds()
    return f"{max(0.0, seconds):.1f} s"


def _format_number(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def _format_kilobytes(size_bytes: int) -> str:
    return f"{size_bytes / 1e3:,.1f} kB" if size_bytes < 1e7 else f"{size_bytes / 1e6:,.1f} MB"
