"""The JSON that goes in and out of the archive's API."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from app.conversion.model import Verdict
from app.conversion.object_keys import UUID
from app.conversion.options import Chip, ToolchainName
from app.conversion.schemas import JobAnswer
from app.kit.web.strict import TEXT, Moment, Strict

CURSOR = rf"^[0-9T:.Z-]{{20,32}}_{UUID}$"


class ArchiveQuery(Strict):
    """Filters and paging of GET /archive."""

    q: Annotated[str, Field(max_length=200, pattern=TEXT)] | None = None
    """Text in the id, the name or the tags."""
    tag: Annotated[str, Field(max_length=50, pattern=TEXT)] | None = None
    """A tag, as a whole."""
    model: Annotated[str, Field(pattern=r"^[0-9a-fA-F]{1,64}$")] | None = None
    """The beginning of the SHA-256 of the model that was submitted."""
    toolchain: ToolchainName | None = None
    platform: Chip | None = None
    verdict: Verdict | None = None
    snr_min_db: Annotated[float, Field(ge=-1000, le=1000)] | None = None
    """Lowest SNR of the worst output, in dB."""
    snr_max_db: Annotated[float, Field(ge=-1000, le=1000)] | None = None
    """Largest SNR of the worst output, in dB."""
    owner: Annotated[str, Field(max_length=200, pattern=TEXT)] | None = None
    since: Moment | None = None
    """Completed at this time or later."""
    until: Moment | None = None
    """Completed before this time."""
    kept: bool | None = None
    """Only jobs that are kept permanently, or only others."""
    limit: Annotated[int, Field(ge=1, le=200)] = 50
    cursor: Annotated[str, Field(pattern=CURSOR)] | None = None
    """next_cursor of the previous page."""


class ArchiveChange(Strict):
    """Body of PUT /archive/{job_id}/keep."""

    is_kept: bool
    """Whether the job is kept permanently."""


@dataclass(frozen=True)
class ArchivedJobRow:
    """A completed job of the archive."""

    __pydantic_config__ = ConfigDict(use_attribute_docstrings=True)

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


class ArchiveAnswer(BaseModel):
    jobs: list[ArchivedJobRow]
    next_cursor: str | None


class ArchivedJobAnswer(BaseModel):
    job: JobAnswer
    """As it was at its end."""
    is_kept: bool
