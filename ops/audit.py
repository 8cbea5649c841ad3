"""Are known vulnerabilities in what is pinned? `python -m ops.audit`: exit code 1 when pip-audit finds one.

An audit that could ask nobody has found nothing out, and fails, too. A mirror of the package index that leaves the
vulnerability service out counts as such: pip-audit would skip every package there and call it well. So does one that
knows of no vulnerability of a version that has some.

What was read and accepted is in audit-accepted.toml, each finding with its reason and its last day. Where it is
accepted that nobody could be asked, the exit code is 3: the audit has neither failed nor passed.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path

import httpx

FOLDER = Path(__file__).parent
ACCEPTED = FOLDER / "audit-accepted.toml"
LOCKS = ("requirements.lock", "requirements-test.lock", "requirements-train.lock")
PROBE = "jinja2/2.10"
"""A version that is known to be vulnerable (PYSEC-2019-217)."""
SERVICE = "https://pypi.org/pypi"
OPTIONS = ("--strict", "--no-deps", "--disable-pip", "--progress-spinner=off")
TIMEOUT_S = 15.0
UNREACHABLE = "service-unreachable"
"""Id of the finding that nobody could be asked."""
NOT_AUDITED = 3
"""The exit code where that is accepted."""


@dataclass(frozen=True)
class Acceptance:
    """A finding that somebody has read. id: of the advisory, as pip-audit prints it; until: the last day it holds."""

    id: str
    reason: str
    until: date


def main() -> int:
    accepted = {known.id: known for known in acceptances(ACCEPTED, datetime.now(UTC).date())}
    problem = service_problem(f"{SERVICE}/{PROBE}/json")
    if problem:
        return report_unreachable(problem, accepted.get(UNREACHABLE))
    files = [word for name in LOCKS for word in ("--requirement", str(FOLDER / name))]
    ignored = [word for id_ in accepted if id_ != UNREACHABLE for word in ("--ignore-vuln", id_)]
    command = [sys.executable, "-m", "pip_audit", *OPTIONS, *ignored, *files]
    return subprocess.run(command, check=False).returncode


def acceptances(path: Path, today: date) -> list[Acceptance]:
    """Those that still hold; the others are said.

    Raises:
        TypeError: An entry lacks a field, or has one that nobody knows.
    """
    entries = [Acceptance(**entry) for entry in tomllib.loads(path.read_text(encoding="utf-8")).get("accepted", ())]
    for entry in entries:
        if entry.until < today:
            print(f"No longer accepted since {entry.until}: {entry.id} ({entry.reason})")
    return [entry for entry in entries if entry.until >= today]


def report_unreachable(problem: str, acceptance: Acceptance | None) -> int:
    """The exit code of an audit that could ask nobody."""
    print(f"NOT AUDITED: the vulnerability service at pypi.org cannot be asked from here: {problem}.")
    if acceptance is None:
        print(f"To accept that for a while, with a reason: {UNREACHABLE} in {ACCEPTED.name}.")
        return 1
    print(f"Accepted until {acceptance.until}: {acceptance.reason}")
    return NOT_AUDITED


def service_problem(url: str) -> str:
    """Why the service cannot be asked; empty when it names a vulnerability of the version at `url`, which has one."""
    try:
        answer = httpx.get(url, timeout=TIMEOUT_S, follow_redirects=True)
    except httpx.TransportError as error:
        return str(error) or type(error).__name__
    if answer.status_code != httpx.codes.OK:
        return f"status {answer.status_code}"
    try:
        return "" if answer.json().get("vulnerabilities") else f"it names no vulnerability of {PROBE}, which has one"
    except (ValueError, AttributeError):
        return "its answer is no JSON object"


if __name__ == "__main__":
    sys.exit(main())
