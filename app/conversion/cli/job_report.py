"""What commands say about a conversion: warnings, quality, the next action, a failure."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from app.conversion.cli.tables import candidates_table, facts_of_quality, quality_table
from app.conversion.client import ConversionClient
from app.kit.errors import ModelmillError
from app.kit.text.json_values import JsonObject

LOG_LINES = 15


def show_warnings(console: Console, record: JsonObject) -> None:
    """What was found in the inputs when they were submitted, and decided by it."""
    recognition = (record.get("intake") or {}).get("recognition") or {}
    if recognition.get("is_taken"):
        text = f"preprocessing: {recognition['summary']}. {recognition['reason']} --preprocess overrules it."
        console.print(text, markup=False, highlight=False, soft_wrap=True)
    for warning in (record.get("intake") or {}).get("warnings") or []:
        console.print(f"warning: {warning['message']}", markup=False, highlight=False, soft_wrap=True)


def show_quality(console: Console, report: JsonObject) -> None:
    if (report.get("quality") or {}).get("outputs"):
        console.print(quality_table(report))
    if (report.get("search") or {}).get("candidates"):
        console.print(candidates_table(report))
    for line in facts_of_quality(report):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def show_next(console: Console, actions: Sequence[JsonObject]) -> None:
    """What to do next, with its price."""
    for action in actions[:1]:
        console.print(f"next: {action_line(action)}", markup=False, highlight=False, soft_wrap=True)


def action_line(action: JsonObject) -> str:
    """ "Take int8 + 4 tensors in 16 bit: 21.8 dB. +4.6 dB, +6.1 kB, +0.30 ms"."""
    price = [
        f"{value:+{form}} {unit}"
        for value, form, unit in (
            (action["gain_db"], ".1f", "dB"),
            (_to_thousands(action["size_delta_bytes"]), ",.1f", "kB"),
            (action["latency_delta_ms"], ".2f", "ms"),
        )
        if value is not None
    ]
    return f"{action['text']} {', '.join(price)}".strip()


def _to_thousands(value: int | None) -> float | None:
    return None if value is None else value / 1000


def lack_of_quality(record: JsonObject, report: JsonObject, min_snr_db: float) -> str:
    """Why this conversion is not as good as min_snr_db; empty when it is.

    Args:
        report: The content of bie.json.
    """
    if (report.get("verdict") or {}).get("nothing_quantized"):
        return "nothing was quantized, so there is no quality to speak of"
    snr_db = record["stages"]["bie"]["summary"].get("snr_db")
    if snr_db is None:
        return "the signal-to-noise ratio of this conversion was not measured"
    return (
        "" if snr_db >= min_snr_db else f"the worst output has {snr_db:g} dB, less than the required {min_snr_db:g} dB"
    )


def show_failure(client: ConversionClient, record: JsonObject, console: Console) -> None:
    """Step, reason, hint and the end of that step's log."""
    error = record["error"] or {"step": "", "reason": "unknown", "hint": ""}
    step = str(error["step"]).lower()
    console.print(f"FAILED at {step.upper()}: {error['reason']}", style="red", markup=False, soft_wrap=True)
    if error.get("hint"):
        console.print(f"  {error['hint']}", markup=False, soft_wrap=True)
    lines = _log_end(client, record["job_id"], step)
    if lines:
        console.print(f"The end of {step}.log:")
    for line in lines:
        console.print(f"  {line}", markup=False, highlight=False, soft_wrap=True)


def _log_end(client: ConversionClient, job_id: str, step: str) -> list[str]:
    text, offset = b"", 0
    try:
        while True:
            part = client.log(job_id, step, offset)
            text = (text + part.text)[-16384:]
            if not part.text:
                break
            offset = part.next_offset
    except ModelmillError:
        pass  # the log is a help, not the news
    return text.decode(errors="replace").splitlines()[-LOG_LINES:]
