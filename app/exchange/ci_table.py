"""The result of `modelmill convert --json` as a Markdown table, for a comment on a change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MEASURES = {
    "snr_db": ("SNR of the worst output", "{:.1f} dB"),
    "cosine": ("Cosine of the worst output", "{:.4f}"),
    "size_bytes": ("Size, quantized", "{:,} bytes"),
    "samples": ("Samples measured", "{:g}"),
    "cpu_s": ("CPU time of quantization", "{:.1f} s"),
}


def ci_table(outcome: Mapping[str, Any], goal_db: float | None) -> str:
    """Returns the table as Markdown.

    Args:
        outcome: {"job": the record, …}, as printed by `convert --json`.
        goal_db: least SNR of the worst output in dB; None if there is no goal.
    """
    job = outcome["job"]
    summary = job["stages"]["bie"]["summary"]
    rows = [("Outcome", _format_outcome(job, summary, goal_db)), ("Toolchain", job["options"]["toolchain"])]
    rows += [
        (title, form.format(summary[name]))
        for name, (title, form) in MEASURES.items()
        if isinstance(summary.get(name), int | float)
    ]
    if job["error"]:
        rows += [("Reason", job["error"]["reason"]), ("What to do", job["error"]["hint"] or "–")]
    lines = [f"### Modelmill: {job['name'] or job['job_id']}", "", "| Measure | Value |", "| --- | --- |"]
    lines += [f"| {title} | {_format_cell(value)} |" for title, value in rows]
    return "\n".join([*lines, "", f"Job `{job['job_id']}`", ""])


def _format_outcome(job: Mapping[str, Any], summary: Mapping[str, Any], goal_db: float | None) -> str:
    if job["status"] != "COMPLETED":
        return f"**{job['status']}**"
    reached = summary.get("snr_db")
    if goal_db is None or not isinstance(reached, int | float):
        return "completed"
    word = "at or above" if reached >= goal_db else "**below**"
    return f"completed, {word} the goal of {goal_db:g} dB"


def _format_cell(value: Any) -> str:
    return str(value).replace("|", "\\|").replace("\n", " ")
