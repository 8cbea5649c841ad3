"""The web as a part of `modelmill up`: its database is prepared before it serves, in a process of its own."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import httpx

from tests.harness.forked import Forked
from tests.harness.ports import free_port
from tests.harness.until import PATIENCE_S, until


def started(folder: Path, port: int, **settings: str) -> Forked:
    variables = {f"MODELMILL_{name.upper()}": value for name, value in settings.items()}
    return Forked(
        "tests.harness.web_program:main",
        [str(port)],
        environment={
            **os.environ,
            "MODELMILL_DATA_DIR": str(folder / "data"),
            "MODELMILL_SECRET_KEY": "s",
            **variables,
        },
        log=folder / "log",
    )


def answers(port: int) -> bool:
    try:
        answer = httpx.get(f"http://127.0.0.1:{port}/healthz", trust_env=False)
    except httpx.TransportError:
        return False
    assert "server" not in answer.headers, "nobody needs to know which program serves"
    return answer.status_code == 200


def test_when_the_web_answers_its_database_is_prepared(tmp_path: Path) -> None:
    port = free_port()
    web = started(tmp_path, port)
    try:
        until(lambda: answers(port) or web.poll() is not None)
        assert answers(port)
        with closing(sqlite3.connect(tmp_path / "data" / "modelmill.db")) as database:
            assert database.execute("SELECT count(*) FROM users").fetchone() == (1,)
    finally:
        web.terminate()
        web.wait(PATIENCE_S)


def test_a_database_that_cannot_be_prepared_ends_the_web_with_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    web = started(tmp_path, free_port(), database_url=f"sqlite:///{tmp_path}/file/database")
    assert web.wait(PATIENCE_S) != 0
    errors = (tmp_path / "log").read_text()
    assert "database" in errors
    assert "Traceback" not in errors
