"""What a test's HTTP server writes of errors."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from tests.harness.http_server import served


@pytest.mark.parametrize(
    ("error", "is_written"), [(BrokenPipeError, False), (ConnectionResetError, False), (ValueError, True)]
)
def test_a_client_that_has_gone_is_no_traceback_but_any_other_error_is(
    error: type[Exception], is_written: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    threads: list[threading.Thread] = []

    def answer(_: BaseHTTPRequestHandler, __: bytes) -> None:
        threads.append(threading.current_thread())
        raise error

    with served(answer) as url:
        with pytest.raises((URLError, ConnectionError)):
            urlopen(url)
        threads[0].join()
    assert (error.__name__ in capsys.readouterr().err) is is_written
