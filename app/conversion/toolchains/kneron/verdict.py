"""Decides from files, report and log whether a vendor run has succeeded, and if not, why.

The vendor has no exception hierarchy, so the log decides: its failure texts are the table in `known_failures`; signals
and the "report on flow status" table are read here.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from app.conversion.errors import ToolchainFailed, ToolchainMissing
from app.conversion.options import Chip
from app.conversion.toolchains.kneron import nef, report
from app.conversion.toolchains.kneron.known_failures import MEMORY_HINT, TABLE, Blame, VendorFailure
from app.conversion.toolchains.kneron.report import VendorReport
from app.conversion.toolchains.kneron.vendor import RunnerResult, VendorOutcome
from app.kit.sandbox.errors import StageFailed

PARSED_CHIPS = (Chip.KL520, Chip.KL720)
"""Chips whose NEF layout was checked on real files; for others, a deviation is a warning, not a failure."""
TAIL_LINES = 8


def require_success(outcome: VendorOutcome, output: Path) -> RunnerResult:
    """Returns the runner's result if the stage wrote its file.

    Raises:
        ToolchainFailed: It did not.
        ToolchainMissing: The vendor's package cannot be imported.
    """
    if not outcome.result.get("ok"):
        raise failure(outcome)
    if not output.is_file() or output.stat().st_size == 0:
        raise make_failure(Diagnosis("no_output", *NO_OUTPUT, "toolchain", ()), outcome)
    return outcome.result


NO_OUTPUT = (
    "the toolchain ended without an error, but wrote no output file",
    "Read the log above its last lines; free disk space and a plain work folder are the first things to check.",
)


def failure(outcome: VendorOutcome) -> StageFailed:
    """Returns the error of a failed run."""
    result = outcome.result
    if result.get("phase") == "import" and result.get("type") in ("ImportError", "ModuleNotFoundError"):
        return ToolchainMissing(
            f"the vendor's package cannot be imported: {result.get('message', '')}",
            hint="Run this worker inside the vendor's image and give the interpreter of its onnx1.13 environment.",
            detail={
                "id": "toolchain_missing",
                "blame": "toolchain",
                "lines": result.get("traceback", [])[-TAIL_LINES:],
            },
        )
    return make_failure(diagnose(outcome), outcome)


def make_failure(diagnosis: Diagnosis, outcome: VendorOutcome) -> ToolchainFailed:
    lines = list(diagnosis.lines) or _list_last_lines(outcome)
    detail = {"id": diagnosis.id, "blame": diagnosis.blame, "lines": lines, "returncode": outcome.returncode}
    phase = outcome.result.get("phase")
    return ToolchainFailed(
        diagnosis.message, hint=diagnosis.hint, detail={**detail, **({"phase": phase} if phase else {})}
    )


def diagnose(outcome: VendorOutcome) -> Diagnosis:
    """Determines the cause from the log; else from the signal; else from the kind of exception."""
    result = outcome.result
    message = f"{result.get('type', '')}: {result.get('message', '')}"
    cause = classify([*outcome.lines(), message])
    if cause is not None:
        return cause
    if outcome.returncode < 0 and "type" not in result:
        return from_signal(outcome.returncode)
    if result.get("type") == "NoOutput":
        return Diagnosis("no_output", *NO_OUTPUT, "toolchain", ())
    if result.get("type") == "SystemExit":
        text = f"the toolchain gave up by itself (exit code {result.get('message') or 0})"
        return Diagnosis("system_exit", text, "Its last lines before that name the cause.", "toolchain", ())
    if "type" in result:
        return Diagnosis("unknown", f"the toolchain failed: {message}"[:500], "Read the log.", "toolchain", ())
    text = f"the toolchain ended with exit code {outcome.returncode} and no result"
    return Diagnosis("no_result", text, "Read the log.", "toolchain", ())


def _list_last_lines(outcome: VendorOutcome) -> list[str]:
    lines: list[str] = []
    for line in outcome.lines():
        lines = [*lines[-TAIL_LINES + 1 :], line.rstrip()[:LINE_WIDTH]]
    return lines


def report_of(result: RunnerResult) -> VendorReport:
    """Returns the vendor's report with the digest of its node table; empty if there is none."""
    files = result.get("files", {})
    if "model_fx_report.json" not in files:
        return {}
    facts = report.read(Path(files["model_fx_report.json"]))
    if "model_fx_report.html" in files:
        nodes = report.read_nodes(Path(files["model_fx_report.html"]))
        if nodes:
            facts["nodes"] = report.digest(nodes)
    return facts


def require_whole_report(outcome: VendorOutcome) -> VendorReport:
    """Returns the report of a quantization; empty if there is none.

    Raises:
        ToolchainFailed: It ends before the speed.
    """
    facts = report_of(outcome.result)
    if not facts or facts["complete"]:
        return facts
    text = "the toolchain wrote a BIE file, but its report breaks off: the quantization did not finish"
    diagnosis = classify(outcome.lines())
    if diagnosis is None:
        diagnosis = Diagnosis("report_incomplete", text, "Read the log for the step that failed.", "toolchain", ())
    raise make_failure(diagnosis, outcome)


def evaluation(outcome: VendorOutcome) -> tuple[VendorReport, list[str]]:
    """Returns the IP evaluator's report and warnings. It never fails the stage: the optimized model already exists."""
    result = outcome.result
    facts, warnings = report_of(result), []
    if result.get("evaluation") == "died":
        warnings.append(f"the IP evaluator died: {from_signal(min(outcome.returncode, -1)).message}")
    if not facts.get("complete"):
        warnings.append("the IP evaluator gave no speed estimate")
    lines = [*outcome.lines(), *str(result.get("evaluate_text", "")).splitlines()]
    unsupported = list_unsupported_operators(lines)
    warnings += [
        f"the IP evaluator calls operator {entry['operator']} unsupported"
        + (f" at {entry['node']}" if entry["node"] else "")
        for entry in unsupported
    ]
    nodes = facts.get("cpu_nodes", [])
    if nodes:
        names = ", ".join(sorted({entry["operator"] for entry in nodes}))
        warnings.append(
            f"{len(nodes)} nodes run on the chip's CPU ({names}); the real speed is lower than the estimate"
        )
    facts["unsupported"] = unsupported
    return facts, warnings


def nef_file(path: Path, chip: Chip, model_id: int) -> tuple[nef.NefFacts | None, list[str]]:
    """Returns the metadata of the NEF, None for one of a chip whose layout is not known, and warnings.

    Raises:
        ToolchainFailed: No chip would load the file.
    """
    try:
        facts = nef.probe(path)
    except nef.NotNef as error:
        if chip in PARSED_CHIPS:
            raise _make_bad_nef("the toolchain wrote a file that is no NEF", error.message) from error
        return None, [f"the NEF could not be read back: {error.message}"]
    if not facts["crc_ok"]:
        raise _make_bad_nef("the checksum of the NEF file is wrong", f"stored checksum {facts['crc']}")
    warnings = []
    if facts["chip"] not in (None, chip.value):
        warnings.append(f"the NEF file names chip {facts['chip']}, but {chip.value} was asked for")
    ids = [model["id"] for model in facts["models"]]
    if ids and model_id not in ids:
        warnings.append(f"the NEF file holds model ids {ids}, but {model_id} was asked for")
    return facts, warnings


def _make_bad_nef(message: str, line: str) -> ToolchainFailed:
    detail = {"id": "bad_nef", "blame": "toolchain", "lines": [line]}
    return ToolchainFailed(message, hint="Free disk space and convert again.", detail=detail)


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
    """Returns the most specific class of failure in a log; None if it contains no known text."""
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
            evidence = _select_evidence(failure, matching)
            return Diagnosis(failure.id, failure.cause.format(**groups), failure.hint, failure.blame, evidence)
    if steps.failed:
        names = ", ".join(steps.failed)
        return Diagnosis(
            "flow_step", f"the step {names} failed", "The log names the cause.", "toolchain", tuple(steps.rows)
        )
    return None


def _select_evidence(failure: VendorFailure, matching: dict[str, list[str]]) -> tuple[str, ...]:
    """Returns the lines of the chosen class first, then those of the general classes, which name the step."""
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


def list_unsupported_operators(lines: Iterable[str]) -> list[report.CpuNode]:
    """Returns the operators that the evaluator calls unsupported: {operator, node}, without duplicates."""
    operators: dict[tuple[str, str], None] = {}
    for line in lines:
        for match in UNSUPPORTED.finditer(line):
            operators[match["op"] or match["op2"] or "?", match["node"] or match["node2"] or ""] = None
    return [{"operator": operator, "node": node} for operator, node in operators]


def from_signal(returncode: int) -> Diagnosis:
    """Returns the most likely cause of death of a process that was ended by a signal.

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
        return Diagnosis(
            "cpu_limit", "the toolchain used up its processor time", "Use fewer pictures.", "resources", ()
        )
    hint = "Try again with one thread; if it stays, try another toolchain version or report the model to the vendor."
    return Diagnosis("crashed", f"the toolchain crashed ({name})", hint, "toolchain", ())
