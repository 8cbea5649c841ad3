"""The audit of what is pinned: nobody asked is a failure unless it was accepted, and what is accepted ends some day."""

from __future__ import annotations

import subprocess
from datetime import date
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from ops import audit
from tests.harness.http_server import respond, served
from tests.harness.ports import free_port

DAY = date(2026, 5, 1)
ENTRY = '[[accepted]]\nid = "{id}"\nreason = "read"\nuntil = {until}\n'


@pytest.mark.parametrize(
    ("status", "body", "problem"),
    [
        (200, b'{"info": {}, "vulnerabilities": [{"id": "PYSEC-2019-217"}]}', ""),
        (404, b"", "status 404"),
        (200, b'{"info": {}}', "names no vulnerability"),
        (200, b'{"info": {}, "vulnerabilities": []}', "names no vulnerability"),
        (200, b"[]", "no JSON object"),
        (200, b"<html>", "no JSON object"),
    ],
)
def test_only_an_answer_that_knows_of_vulnerabilities_counts(
    status: int, body: bytes, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "*")

    def answer(handler: BaseHTTPRequestHandler, _: bytes) -> None:
        respond(handler, body, status)

    with served(answer) as url:
        seen = audit.service_problem(f"{url}/json")
    assert problem in seen and bool(seen) is bool(problem)


@pytest.fixture
def accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What is accepted, where no service answers."""
    path = tmp_path / "accepted.toml"
    path.write_text("")
    monkeypatch.setattr(audit, "ACCEPTED", path)
    monkeypatch.setattr(audit, "SERVICE", f"http://127.0.0.1:{free_port()}")
    return path


def test_an_audit_that_could_ask_nobody_fails(accepted: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert audit.main() == 1
    assert "NOT AUDITED" in capsys.readouterr().out


def test_an_audit_that_could_ask_nobody_has_not_passed_where_that_is_accepted(
    accepted: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    accepted.write_text(ENTRY.format(id=audit.UNREACHABLE, until="9999-12-31"))
    assert audit.main() == audit.NOT_AUDITED
    output = capsys.readouterr().out
    assert "NOT AUDITED" in output and "Accepted until 9999-12-31: read" in output


def test_pip_audit_is_told_what_is_accepted_and_its_verdict_is_ours(
    accepted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    accepted.write_text(ENTRY.format(id="A-1", until="9999-12-31"))
    commands: list[list[str]] = []

    def vulnerable(command: list[str], *, check: bool) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        return subprocess.CompletedProcess(command, 1)

    monkeypatch.setattr(audit.subprocess, "run", vulnerable)
    monkeypatch.setattr(audit, "service_problem", lambda _: "")
    assert audit.main() == 1
    (command,) = commands
    assert command[command.index("--ignore-vuln") + 1] == "A-1"
    assert "--strict" in command, "a package that is skipped is not audited"
    assert all(str(audit.FOLDER / name) in command for name in audit.LOCKS)


def test_what_was_accepted_no_longer_is_after_its_day(accepted: Path, capsys: pytest.CaptureFixture[str]) -> None:
    accepted.write_text(ENTRY.format(id="A-1", until="2026-04-30") + ENTRY.format(id="A-2", until="2026-05-01"))
    assert [known.id for known in audit.acceptances(accepted, DAY)] == ["A-2"]
    assert "No longer accepted since 2026-04-30: A-1" in capsys.readouterr().out


def test_an_acceptance_without_a_reason_is_refused(accepted: Path) -> None:
    accepted.write_text('[[accepted]]\nid = "A-1"\nuntil = 2026-05-01\n')
    with pytest.raises(TypeError, match="reason"):
        audit.acceptances(accepted, DAY)


def test_the_accepted_findings_of_this_repository_are_well_formed(capsys: pytest.CaptureFixture[str]) -> None:
    assert all(known.reason for known in audit.acceptances(Path(audit.FOLDER) / "audit-accepted.toml", DAY))
