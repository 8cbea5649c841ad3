"""What the vendor's failure texts mean. The vendor has no exception hierarchy, so the log decides.

The table itself is in `known_failures`; signals and the "report on flow status" table are read here.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable
from dataclasses import dataclass

from app.conversion.toolchains.kneron.known_failures import MEMORY_HINT, TABLE, Blame, VendorFailure

LINES_LIMIT = 12
LINE_WIDTH = 500


@dataclass(frozen=True)
class Diagnosis:
    id: str
    message: str
    hint: str
    blame: Blame
    lines: tuple[str, ...]


UNSUPPORTED = re.compile(
    r"undefined CPU op \[(?P<op>\w+)\] of node \[(?P<node>[^\]]*)\]|"
    r"(?:unsupported|not supported)\W+(?:op|operator|node)\w*\W+(?P<op2>\w+)(?:\W+node\W+(?P<node2>[\w./:]+))?",
    re.IGNORECASE,
)
CROSSES = set("✗✘×❌xX")


def classify(lines: Iterable[str]) -> Diagnosis | None:
    """The most telling class of failure in a log; None when no known text is found."""
    matches: dict[str, re.Match[str]] = {}
    matching: dict[str, list[str]] = {}
    steps = FlowTable()
    for line in lines:
        steps.feed(line)
        for failure in TABLE:
            match = failure.pattern.search(line)
            if match:
                matches.setdefault(failure.id, match)
                matching.setdefault(failure.id, []).append(line.rstrip()[:LINE_WIDTH])
    for failure in TABLE:
        if failure.id in matches:
            groups = {key: value or "?" for key, value in matches[failure.id].groupdict().items()}
            evidence = _evidence(failure, matching)
            return Diagnosis(failure.id, failure.cause.format(**groups), failure.hint, failure.blame, evidence)
    if steps.failed:
        names = ", ".join(steps.failed)
        return Diagnosis(
            "flow_step", f"the step {names} failed", "The log names the cause.", "toolchain", tuple(steps.rows)
        )
    return None


def _evidence(failure: VendorFailure, matching: dict[str, list[str]]) -> tuple[str, ...]:
    """The lines of the winning class first, then those of the general classes, which name the step."""
    lines = list(dict.fromkeys(matching[failure.id]))
    for other in TABLE:
        if other.severity == "general" and other.id != failure.id:
            lines += matching.get(other.id, [])
    return tuple(dict.fromkeys(lines))[:LINES_LIMIT]


class FlowTable:
    """Reads the "report on flow status" table: a row per step with ticks and crosses."""

    def __init__(self) -> None:
        self.is_open = False
        self.failed: list[str] = []
        self.rows: list[str] = []

    def feed(self, line: str) -> None:
        if "report on flow status" in line.lower():
            self.is_open, self.failed, self.rows = True, [], []
            return
        cells = [cell.strip() for cell in re.split(r"[|│]|\s{2,}", line) if cell.strip()]
        if not self.is_open or len(cells) < 2:
            return
        if any(set(cell) <= CROSSES for cell in cells[1:]):
            self.failed.append(cells[0])
            self.rows.append(line.strip()[:LINE_WIDTH])


def unsupported_operators(lines: Iterable[str]) -> list[dict[str, str]]:
    """Operators the evaluator names as unsupported: {operator, node}, without doubles."""
    operators: dict[tuple[str, str], None] = {}
    for line in lines:
        for match in UNSUPPORTED.finditer(line):
            operators[match["op"] or match["op2"] or "?", match["node"] or match["node2"] or ""] = None
    return [{"operator": operator, "node": node} for operator, node in operators]


def from_signal(returncode: int) -> Diagnosis:
    """What a process that a signal ended most likely died of.

    Args:
        returncode: Negative, as Popen gives it.
    """
    try:
        name = signal.Signals(-returncode).name
    except ValueError:
        name = f"signal {-returncode}"
    if name in ("SIGKILL", "SIGABRT"):
        return Diagnosis(
            "killed", f"the toolchain died with {name}, most likely out of memory", MEMORY_HINT, "resources", ()
        )
    if name == "SIGXCPU":
        return Diagnosis("cpu_limit", "the toolchain used up its processor time", "Use fewer images.", "resources", ())
    hint = "Try again with one thread; if it stays, try another toolchain version or report the model to the vendor."
    return Diagnosis("crashed", f"the toolchain crashed ({name})", hint, "toolchain", ())
