"""The sources of an edge worker's streams, by name, and their states. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

NAMED = re.compile(r"([A-Za-z0-9][A-Za-z0-9_.-]{0,31})=(.+)", re.ASCII)
MOST_SOURCES = 16
SOURCES = "sources"
"""Key in a worker's report of itself."""
BROADCAST = "broadcast"
"""The parameter with the path of the broadcast."""
BROADCASTS = "broadcasts"
"""Key in a worker's report of itself."""
MOST_TEXT = 500


class NamedSource(NamedTuple):
    name: str
    """Its rows have it; empty: the worker has one source, without a name."""
    source: str
    """What is opened."""


def read_sources(text: str) -> tuple[NamedSource, ...]:
    """Reads the parameter `source`: one source, or several of the form NAME=SOURCE, one per line.

    Raises:
        ValueError: They are not of this form.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    matches = [NAMED.fullmatch(line) for line in lines]
    if len(lines) == 1 and matches[0] is None:
        return (NamedSource("", lines[0]),)
    sources = [NamedSource(match[1], match[2].strip()) for match in matches if match is not None]
    if len(sources) < len(lines):
        raise ValueError("NAME=SOURCE in each line, such as door=video:0")
    if len({source.name for source in sources}) < len(sources) or len(sources) > MOST_SOURCES:
        raise ValueError(f"at most {MOST_SOURCES} sources with different names")
    return tuple(sources)


class SourceStatus(StrEnum):
    OPENING = "opening"
    RUNNING = "running"
    NO_SIGNAL = "no_signal"
    ENDED = "ended"


@dataclass(frozen=True)
class SourceState:
    """A source of an edge worker, as the worker reports it."""

    name: str
    status: SourceStatus
    since: str
    """Since when it has this status; ISO 8601, by the node's clock."""
    message: str = ""
    """Why it delivers nothing; empty if it does."""
    last_frame_at: str = ""
    """When its last frame came; empty: none did."""
    frames: int = 0
    hard: int = 0
    """How many of them were hard."""
    still: int = 0
    """Frames that were skipped because nothing moved."""
    damaged: int = 0


def source_states(detail: Mapping[str, Any]) -> Iterator[SourceState]:
    """Yields the states in a worker's report of itself, which may be anything."""
    states = detail.get(SOURCES)
    for state in states[:MOST_SOURCES] if isinstance(states, list) else ():
        if not isinstance(state, Mapping) or state.get("status") not in list(SourceStatus):
            continue
        yield SourceState(
            _to_text(state.get("name")),
            SourceStatus(state["status"]),
            _to_text(state.get("since")),
            _to_text(state.get("message")),
            _to_text(state.get("last_frame_at")),
            *(_count(state.get(name)) for name in ("frames", "hard", "still", "damaged")),
        )


@dataclass(frozen=True)
class SourceBroadcast:
    """The broadcast of a source, as its worker reports it; see BroadcastState."""

    source: str
    """Name of the source."""
    url: str
    is_sending: bool
    frames: int
    connections: int
    core_share: float
    problem: str


def source_broadcasts(detail: Mapping[str, Any]) -> Iterator[SourceBroadcast]:
    """Yields the broadcasts in a worker's report of itself, which may be anything."""
    states = detail.get(BROADCASTS)
    for state in states[:MOST_SOURCES] if isinstance(states, list) else ():
        if isinstance(state, Mapping):
            share = state.get("core_share")
            yield SourceBroadcast(
                _to_text(state.get("source")),
                _to_text(state.get("url")),
                state.get("is_sending") is True,
                _count(state.get("frames")),
                _count(state.get("connections")),
                float(share) if isinstance(share, int | float) and 0 <= share < 1000 else 0.0,
                _to_text(state.get("problem")),
            )


def _to_text(value: object) -> str:
    return value[:MOST_TEXT] if isinstance(value, str) else ""


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 53 else 0
