"""A conversion made twice: are the outputs the same, to the byte or but for the order of their parts?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

from app.kit.text.json_values import JsonObject

OUTPUTS = ("out.onnx", "out.bie", "out.nef")
Fetch = Callable[[JsonObject, str], Path]
"""fetch(record, name): a downloaded file of that job."""


class Sameness(StrEnum):
    BYTES = "BYTES"
    """Equal to the byte."""
    NORMALIZED = "NORMALIZED"
    """The same network, with its parts written in another order."""
    DIFFERENT = "DIFFERENT"
    MISSING = "MISSING"
    """One of the two lacks this output."""


@dataclass(frozen=True)
class OutputComparison:
    name: str
    sameness: Sameness
    sha256: tuple[str, str]
    """Before and after; empty if it is missing."""
    differences: tuple[str, ...] = ()

    @property
    def is_same(self) -> bool:
        return self.sameness in (Sameness.BYTES, Sameness.NORMALIZED)

    def to_json(self) -> JsonObject:
        return {**asdict(self), "sha256": list(self.sha256), "differences": list(self.differences)}


def compare(before: JsonObject, after: JsonObject, fetch: Fetch) -> list[OutputComparison]:
    """Compares every output of two completed jobs. Files with equal digests are not downloaded."""
    return [_compare_output(name, before, after, fetch) for name in OUTPUTS]


def find_changed_versions(before: JsonObject, after: JsonObject) -> dict[str, tuple[str, str]]:
    """Tools with different versions, before and after: why outputs may differ."""
    pairs = {}
    for step, stage in before["stages"].items():
        then, now = stage["versions"], after["stages"][step]["versions"]
        for tool in sorted(then.keys() | now.keys()):
            if then.get(tool) != now.get(tool):
                pairs[tool] = (str(then.get(tool) or "none"), str(now.get(tool) or "none"))
    return pairs


def _compare_output(name: str, before: JsonObject, after: JsonObject, fetch: Fetch) -> OutputComparison:
    digests = _get_sha256(before, name), _get_sha256(after, name)
    if not all(digests):
        return OutputComparison(name, Sameness.MISSING, digests)
    if digests[0] == digests[1]:
        return OutputComparison(name, Sameness.BYTES, digests)
    if before["options"]["toolchain"] != "host":
        return OutputComparison(
            name, Sameness.DIFFERENT, digests, ("the bytes differ; the vendor's format is not open",)
        )
    from app.conversion.toolchains.host.canonical import compare_files

    likeness = compare_files(name, fetch(before, name), fetch(after, name))
    sameness = Sameness.NORMALIZED if likeness.is_equal else Sameness.DIFFERENT
    return OutputComparison(name, sameness, digests, likeness.differences)


def _get_sha256(record: JsonObject, name: str) -> str:
    return str(record["artifacts"].get(name, {}).get("sha256", ""))
