"""The audit of what is pinned: a service that cannot be asked is said to be so, and never taken for a clean bill."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from ops import audit
from tests.harness.ports import free_port


@contextmanager
def service(status: int, body: bytes) -> Iterator[str]:
    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/json"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("status", "body", "problem"),
    [
        (200, b'{"info": {}, "vulnerabilities": []}', ""),
        (404, b"", "status 404"),
        (200, b'{"info": {}}', "names no vulnerabilities"),
        (200, b"<html>", "no JSON"),
    ],
)
def test_only_an_answer_that_knows_of_vulnerabilities_counts(status: int, body: bytes, problem: str) -> None:
    with service(status, body) as url:
        found = audit.why_not(url)
    assert problem in found and bool(found) is bool(problem)


def test_without_a_network_the_audit_says_so_and_does_not_fail(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(audit, "SERVICE", f"http://127.0.0.1:{free_port()}")
    assert audit.main() == 0
    assert "NOT AUDITED" in capsys.readouterr().out
