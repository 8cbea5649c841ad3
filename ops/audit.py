"""Are known vulnerabilities in what is pinned? `python -m ops.audit`: exit code 1 when pip-audit finds one.

Where the service that knows them cannot be asked, it says so and ends with 0: not asked is not the same as vulnerable.
A mirror of the package index that leaves the service out counts as such; pip-audit would skip every package there and
call it well.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import httpx

FOLDER = Path(__file__).parent
LOCKS = ("requirements.lock", "requirements-test.lock", "requirements-train.lock")
ASKED_ABOUT = "jinja2"
SERVICE = f"https://pypi.org/pypi/{ASKED_ABOUT}"
PATIENCE_S = 15.0


def main() -> int:
    problem = why_not(f"{SERVICE}/{pinned(ASKED_ABOUT)}/json")
    if problem:
        print(f"NOT AUDITED: the vulnerability service at pypi.org cannot be asked from here: {problem}.")
        return 0
    files = [word for name in LOCKS for word in ("--requirement", str(FOLDER / name))]
    command = [sys.executable, "-m", "pip_audit", "--no-deps", "--disable-pip", "--progress-spinner", "off", *files]
    return subprocess.run(command, check=False).returncode


def why_not(url: str) -> str:
    """Why the service cannot be asked; empty when it answers about a package that exists."""
    try:
        answer = httpx.get(url, timeout=PATIENCE_S, follow_redirects=True)
    except httpx.TransportError as error:
        return str(error) or type(error).__name__
    if answer.status_code != httpx.codes.OK:
        return f"status {answer.status_code}"
    try:
        return "" if "vulnerabilities" in answer.json() else "its answer names no vulnerabilities"
    except ValueError:
        return "its answer is no JSON"


def pinned(package: str) -> str:
    """The version in the lock."""
    lines = (FOLDER / LOCKS[0]).read_text().splitlines()
    return next(line.partition("==")[2].split()[0] for line in lines if line.startswith(f"{package}=="))


if __name__ == "__main__":
    sys.exit(main())
