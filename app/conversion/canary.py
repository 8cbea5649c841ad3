"""Two runs of one conversion, by two versions of its toolchain: what has changed. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from app.kit.text.json_values import JsonObject

OUTPUT = "out.nef"
DROP_DB = 0.5
"""A loss of SNR that is no noise."""
Outcome = Literal["same", "better", "worse", "failed", "recovered", "still_failed"]
WORSE = frozenset({"worse", "failed"})


@dataclass(frozen=True)
class CanaryRow:
    """One pinned job, before and after. Numbers are None if one of the runs has none."""

    job_id: str
    """Of the pinned one."""
    again_id: str
    name: str
    outcome: Outcome
    snr_db: tuple[float | None, float | None]
    took_s: tuple[float | None, float | None]
    """Running, without queues."""
    size_bytes: tuple[int | None, int | None]
    versions: Mapping[str, tuple[str, str]]
    """Tools whose version differs: before and after."""
    reason: str = ""
    """Why the later run failed."""

    @property
    def is_worse(self) -> bool:
        return self.outcome in WORSE

    def to_json(self) -> JsonObject:
        return {**vars(self), "versions": dict(self.versions), "is_worse": self.is_worse}


def compare(before: JsonObject, after: JsonObject, *, drop_db: float = DROP_DB) -> CanaryRow:
    """Both finished.

    Args:
        drop_db: a loss of SNR from which the later run counts as worse.
    """
    snr = _read_snr_db(before), _read_snr_db(after)
    return CanaryRow(
        job_id=before["job_id"],
        again_id=after["job_id"],
        name=before["name"],
        outcome=_judge_outcome(before["status"], after["status"], snr, drop_db),
        snr_db=snr,
        took_s=(_read_took_s(before), _read_took_s(after)),
        size_bytes=(_read_size_bytes(before), _read_size_bytes(after)),
        versions=_find_changed(_read_versions(before), _read_versions(after)),
        reason=(after.get("error") or {}).get("reason", ""),
    )


def _judge_outcome(before: str, after: str, snr: tuple[float | None, float | None], drop_db: float) -> Outcome:
    if after == "FAILED":
        return "still_failed" if before == "FAILED" else "failed"
    if before == "FAILED":
        return "recovered"
    one, other = snr
    if one is None or other is None or abs(other - one) < drop_db:
        return "same"
    return "better" if other > one else "worse"


def _read_snr_db(record: JsonObject) -> float | None:
    value: float | None = record["stages"]["bie"]["summary"].get("snr_db")
    return value


def _read_took_s(record: JsonObject) -> float | None:
    spans = [
        (datetime.fromisoformat(stage["finished_at"]) - datetime.fromisoformat(stage["started_at"])).total_seconds()
        for stage in record["stages"].values()
        if stage["started_at"] and stage["finished_at"]
    ]
    return round(sum(spans), 3) if spans else None


def _read_size_bytes(record: JsonObject) -> int | None:
    artifact = record["artifacts"].get(OUTPUT)
    return artifact["size_bytes"] if artifact else None


def _read_versions(record: JsonObject) -> dict[str, str]:
    return {tool: number for stage in record["stages"].values() for tool, number in stage["versions"].items()}


def _find_changed(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    tools = sorted(before.keys() | after.keys())
    pairs = {tool: (before.get(tool, ""), after.get(tool, "")) for tool in tools}
    return {tool: pair for tool, pair in pairs.items() if pair[0] != pair[1]}
