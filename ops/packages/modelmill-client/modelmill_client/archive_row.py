"""A line of the archive: what can be known of a job without opening it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True)
class ArchiveRow:
    """A completed job of the archive, as `Modelmill.archive` lists it."""

    job_id: str
    owner: str
    name: str
    tags: tuple[str, ...]
    model_sha256: str
    toolchain: str
    platform: str
    verdict: str
    """PASSED, BELOW_RULE, or empty if it was not measured."""
    snr_db: float | None
    """SNR of the worst output, in dB."""
    created_at: str
    finished_at: str
    took_s: float
    """Seconds from its submission to its end."""
    size_bytes: int
    """Total size of its files in bytes."""
    is_kept: bool
    """Whether the job is kept permanently."""


def row_of(entry: Mapping[str, Any]) -> ArchiveRow:
    """Of an entry of GET /archive. A newer service may send more fields."""
    known = {field.name: entry[field.name] for field in fields(ArchiveRow)}
    return ArchiveRow(**{**known, "tags": tuple(known["tags"])})
