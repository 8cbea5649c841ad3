"""How a job goes, for whoever waits for it: a line on a terminal, or a drawing in a notebook."""

from __future__ import annotations

import html
import sys
from collections.abc import Mapping
from typing import Any, TextIO

from modelmill_client.quality import quality_of

FINISHED = ("COMPLETED", "FAILED")
SCALE_DB = 60.0
"""The right end of the drawing of a signal-to-noise ratio."""
RULE_DB = 10.0


def line_of(record: Mapping[str, Any]) -> str:
    """A job in one line."""
    parts = [str(record.get("name") or record.get("job_id", "")), str(record.get("status", ""))]
    if record.get("status") not in FINISHED:
        parts.append(f"{record.get('progress', 0)} %")
    worst = quality_of(record).worst
    if worst is not None:
        parts.append(f"{worst:.1f} dB")
    if record.get("error"):
        parts.append(str(record["error"].get("reason", "")))
    return "  ".join(parts)


def html_of(record: Mapping[str, Any]) -> str:
    """A job as a notebook shows it: its state, how far it is, and the worst output on a scale."""
    name = html.escape(str(record.get("name") or record.get("job_id", "")))
    status = html.escape(str(record.get("status", "")))
    percent = 100 if record.get("status") == "COMPLETED" else int(record.get("progress") or 0)
    worst = quality_of(record).worst
    drawing = "" if worst is None else _scale(worst)
    error = record.get("error") or {}
    reason = html.escape(f"{error.get('reason', '')} {error.get('hint', '')}".strip())
    why = f"<div>{reason}</div>" if reason else ""
    bar = f'<progress max="100" value="{percent}" aria-label="progress"></progress>'
    return f"<div><strong>{name}</strong> {status} {bar} {drawing}{why}</div>"


def _scale(decibels: float) -> str:
    width = 160
    at = width * max(0.0, min(1.0, decibels / SCALE_DB))
    rule = width * RULE_DB / SCALE_DB
    label = f"worst output: {decibels:.1f} dB"
    return (
        f'<svg width="{width + 70}" height="16" role="img" aria-label="{label}">'
        f'<rect x="0" y="5" width="{width}" height="6" fill="#8884"/>'
        f'<rect x="0" y="5" width="{at:.1f}" height="6" fill="{"#2a7" if decibels >= RULE_DB else "#c60"}"/>'
        f'<line x1="{rule:.1f}" y1="2" x2="{rule:.1f}" y2="14" stroke="currentColor"/>'
        f'<text x="{width + 6}" y="12" font-size="11" fill="currentColor">{decibels:.1f} dB</text></svg>'
    )


class ProgressView:
    """Shows a job anew whenever it changes. stream: where lines go; stderr when left out."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._shown = ""
        self._handle = _notebook_handle() if stream is None else None

    def show(self, record: Mapping[str, Any]) -> None:
        """The record as it is now."""
        line = line_of(record)
        if line == self._shown:
            return
        if self._handle is not None:
            self._handle.update(_Html(html_of(record)))
        elif self._stream.isatty():
            end = "\n" if record.get("status") in FINISHED else ""
            print(f"\r\x1b[2K{line}", end=end, file=self._stream, flush=True)
        else:
            print(line, file=self._stream, flush=True)
        self._shown = line


class _Html:
    def __init__(self, text: str) -> None:
        self._text = text

    def _repr_html_(self) -> str:
        return self._text


def _notebook_handle() -> Any:
    """What a notebook redraws; None outside of one."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is None or type(shell).__name__ != "ZMQInteractiveShell":
        return None
    from IPython.display import display  # type: ignore[import-not-found]  # there is one, or this is no notebook

    return display(_Html(""), display_id=True)
