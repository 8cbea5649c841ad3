"""How a job goes, for whoever waits for it: a line on a terminal, or a drawing in a notebook."""

from __future__ import annotations

import html
import sys
from collections.abc import Mapping
from typing import Any, TextIO

from modelmill_client.quality import Quality, quality_of

FINISHED = ("COMPLETED", "FAILED")
SCALE_DB = 60.0
"""The right end of the drawing of a signal-to-noise ratio."""
VERDICTS = {True: "passed", False: "below the rule"}


def line_of(record: Mapping[str, Any]) -> str:
    """A job in one line."""
    parts = [str(record.get("name") or record.get("job_id", "")), str(record.get("status", ""))]
    if record.get("status") not in FINISHED:
        parts.append(f"{record.get('progress', 0)} %")
    quality = quality_of(record)
    if quality.worst is not None:
        parts.append(f"{quality.worst:.1f} dB")
    if quality.passed is not None:
        parts.append(VERDICTS[quality.passed])
    if record.get("error"):
        parts.append(str(record["error"].get("reason", "")))
    return "  ".join(parts)


def html_of(record: Mapping[str, Any]) -> str:
    """A job as a notebook shows it: its state, how far it is, its verdict, and the worst output on a scale."""
    name = html.escape(str(record.get("name") or record.get("job_id", "")))
    status = html.escape(str(record.get("status", "")))
    percent = 100 if record.get("status") == "COMPLETED" else int(record.get("progress") or 0)
    quality = quality_of(record)
    verdict = "" if quality.passed is None else VERDICTS[quality.passed]
    drawing = "" if quality.worst is None else _scale(quality.worst, quality)
    error = record.get("error") or {}
    reason = html.escape(f"{error.get('reason', '')} {error.get('hint', '')}".strip())
    why = f"<div>{reason}</div>" if reason else ""
    bar = f'<progress max="100" value="{percent}" aria-label="progress"></progress>'
    return f"<div><strong>{name}</strong> {status} {bar} {drawing} {verdict}{why}</div>"


def _scale(decibels: float, quality: Quality) -> str:
    """The worst output as a bar in the color of the verdict, and the rule as a line across it."""
    width = 160
    at = width * max(0.0, min(1.0, decibels / SCALE_DB))
    rule = width * max(0.0, min(1.0, quality.rule / SCALE_DB))
    color = "#c60" if quality.passed is False else "#2a7"
    label = f"worst output: {decibels:.1f} dB, required: {quality.rule:g} dB"
    return (
        f'<svg width="{width + 70}" height="16" role="img" aria-label="{label}">'
        f'<rect x="0" y="5" width="{width}" height="6" fill="#8884"/>'
        f'<rect x="0" y="5" width="{at:.1f}" height="6" fill="{color}"/>'
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
            self._handle.update(_Drawing(line, html_of(record)))
        elif self._stream.isatty():
            end = "\n" if record.get("status") in FINISHED else ""
            print(f"\r\x1b[2K{line}", end=end, file=self._stream, flush=True)
        else:
            print(line, file=self._stream, flush=True)
        self._shown = line


class _Drawing:
    """HTML, and the line for notebooks that show only text, as those on GitHub or in a terminal."""

    def __init__(self, line: str, text: str) -> None:
        self._line, self._text = line, text

    def __repr__(self) -> str:
        return self._line

    def _repr_html_(self) -> str:
        return self._text


def _notebook_handle() -> Any:
    """What a notebook redraws; None outside of one."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is None or type(shell).__name__ != "ZMQInteractiveShell":
        return None
    from IPython.display import display  # type: ignore[import-not-found]  # there is one, or this is no notebook

    return display(_Drawing("", ""), display_id=True)
