"""A sweep, its jobs, and the Pareto front among them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

from pydantic import ConfigDict
from typing_extensions import TypedDict

from app.kit.text.json_values import JsonObject
from app.kit.web.described_type import DescribedType
from app.kit.web.openapi import ErrorDetail

BEFORE_VARIANT = " · "
"""Separates model and options in the names of its jobs."""


class EntryState(StrEnum):
    PENDING = "PENDING"
    """Waits until there is room."""
    SUBMITTED = "SUBMITTED"
    REFUSED = "REFUSED"
    """Its inputs or options are not valid."""
    CANCELLED = "CANCELLED"
    """Cancelled before it was submitted."""
    ENDED = "ENDED"


@dataclass(frozen=True)
class Sweep:
    sweep_id: str
    owner: str
    name: str
    tags: tuple[str, ...]
    created_at: str
    no_cache: bool = False
    """Its jobs carry out every stage, even if the same work was done before."""


@dataclass(frozen=True)
class Entry:
    """One model with one set of options."""

    sweep_id: str
    position: int
    job_id: str
    """Id of its job, chosen in advance, so that a second try creates no second job."""
    model_name: str
    model_key: str
    quant_key: str
    variant: str
    """Name of its options."""
    options: Mapping[str, Any]
    """Options of a job, as JSON."""
    state: EntryState = EntryState.PENDING
    problem: str = ""
    result: Mapping[str, Any] | None = None
    """Result of its job, see result_of; of a refused one: why."""


class RowError(TypedDict):
    code: str
    message: str
    hint: str
    detail: Annotated[JsonObject, DescribedType(ErrorDetail)]


@dataclass(frozen=True)
class RowAnswer:
    """A row of the table."""

    __pydantic_config__ = ConfigDict(use_attribute_docstrings=True)

    position: int
    job_id: str
    model_name: str
    variant: str
    status: str
    """PENDING until it is submitted, REFUSED, CANCELLED, GONE (forgotten before its end), or the job's own."""
    progress: int
    verdict: str | None
    snr_db: float | None
    cosine: float | None
    size_bytes: int | None
    """Size of the quantized model in bytes; of the compiled one if that is not known."""
    latency_ms: float | None
    """Milliseconds of one inference of the quantized model."""
    rule_db: float | None
    """SNR in dB that its outputs must reach."""
    took_s: float | None
    problem: str
    is_best: bool
    """Whether no other row of the same model is better in both quality and size."""
    is_waiting: bool = False
    """Whether its job waits for a worker of the stage that its status names."""
    error: Annotated[JsonObject | None, DescribedType(RowError | None)] = None
    """Why it was refused or has failed; null if it did not."""


def merge_values(base: Mapping[str, Any], change: Mapping[str, Any]) -> JsonObject:
    """Returns the base with the values of the change, part by part."""
    whole = dict(base)
    for name, value in change.items():
        former = whole.get(name)
        is_part = isinstance(former, Mapping) and isinstance(value, Mapping)
        whole[name] = merge_values(former, value) if is_part else value  # type: ignore[arg-type]  # both are mappings then
    return whole


def best_of(rows: Sequence[RowAnswer]) -> set[int]:
    """Returns the indexes of the rows that no other row of the same model beats both in SNR (dB) and in size
    (bytes)."""
    measured = [row for row in rows if row.snr_db is not None and row.size_bytes is not None]
    return {
        row.position
        for row in measured
        if not any(_beats(other, row) for other in measured if other.model_name == row.model_name)
    }


def _beats(a: RowAnswer, b: RowAnswer) -> bool:
    assert a.snr_db is not None and a.size_bytes is not None and b.snr_db is not None and b.size_bytes is not None
    is_as_good = a.snr_db >= b.snr_db and a.size_bytes <= b.size_bytes
    return is_as_good and (a.snr_db > b.snr_db or a.size_bytes < b.size_bytes)
