"""The web as a part of `modelmill up`: its database is prepared before it serves, in a process of its own."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import httpx

from tests.harness.paths import REPOSITORY
from tests.harness.ports import free_port
from tests.harness.until import PATIENCE_S, until

SERVE = "from app.cli.up.web_server import serve; serve('127.0.0.1', {port})"


def started(folder: Path, port: int, **settings: str) -> subprocess.Popen[str]:
    variables = {f"MODELMILL_{name.upper()}": value for name, value in settings.items()}
    return subprocess.Popen(
        [sys.executable, "-c", SERVE.format(port=port)],
        cwd=REPOSITORY,
        env={**os.environ, "MODELMILL_DATA_DIR": str(folder / "data"), "MODELMILL_SECRET_KEY": "s", **variables},
        stderr=subprocess.PIPE,
        text=True,
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
    with started(tmp_path, port) as web:
        try:
            until(lambda: answers(port) or web.poll() is not None)
            assert answers(port)
            with closing(sqlite3.connect(tmp_path / "data" / "modelmill.db")) as database:
                assert database.execute("SELECT count(*) FROM users").fetchone() == (1,)
        finally:
            web.terminate()


def test_a_database_that_cannot_be_prepared_ends_the_web_with_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with started(tmp_path, free_port(), database_url=f"sqlite:///{tmp_path}/file/database") as web:
        _, errors = web.communicate(timeout=PATIENCE_S)
    assert web.returncode not in (0, None)
    assert "database" in errors
    assert "Traceback" not in errors
