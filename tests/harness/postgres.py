"""A real PostgreSQL for tests: a cluster of its own in a temporary folder, run by a user without rights."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from app.bootstrap.accounts import MIGRATIONS
from app.kit.sql import Database
from app.kit.sql.migrations import upgrade
from tests.harness.ports import free_port

INSTALLED = Path("/usr/lib/postgresql")
PASSWORD = "only-for-tests"
UNPRIVILEGED = ("postgres", "nobody")


class PostgresServer:
    def __init__(self, port: int) -> None:
        self.port = port
        self._migrated = ""

    def new_database(self, *, like: str = "template1") -> str:
        """The URL of a copy of this one; by default it is empty."""
        name = f"test_{uuid.uuid4().hex[:12]}"
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}" TEMPLATE "{like}"'.encode())
        return self.url(name)

    def migrated_database(self) -> str:
        """The URL of one of this program's version, and nothing in it: migrated once, and copied."""
        if not self._migrated:
            url = self.new_database()
            database = Database(url)
            upgrade(database, MIGRATIONS)
            database.close()
            self._migrated = url.rpartition("/")[2]
        return self.new_database(like=self._migrated)

    def url(self, name: str) -> str:
        return f"postgresql://postgres:{PASSWORD}@127.0.0.1:{self.port}/{name}"


@contextmanager
def postgres_server() -> Iterator[PostgresServer]:
    """Skips where PostgreSQL is not installed, but fails in CI."""
    folders = sorted(INSTALLED.glob("*/bin/initdb"))
    if not folders:
        missing = "There is no PostgreSQL: apt-get install --no-install-recommends postgresql"
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)
    binaries, folder, port = folders[-1].parent, Path(tempfile.mkdtemp(prefix="modelmill-pg-")), free_port()
    data, secret = folder / "data", folder / "password"
    secret.write_text(PASSWORD)
    user = _give_to_somebody_without_rights(folder, secret)
    begin = [
        binaries / "initdb",
        "-D",
        data,
        "-U",
        "postgres",
        "--auth=scram-sha-256",
        "--encoding=UTF8",
        f"--pwfile={secret}",
        "--locale=C.UTF-8",  # whatever this machine's is: with C alone a database would have no encoding
        "--no-sync",
    ]
    options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder} -c fsync=off"
    control = [binaries / "pg_ctl", "-D", data, "-w", "-t", "60"]
    try:
        _run(begin, user)
        _run([*control, "-l", folder / "log", "-o", options, "start"], user)
        yield PostgresServer(port)
    finally:
        _run([*control, "-m", "immediate", "stop"], user, check=False)
        shutil.rmtree(folder, ignore_errors=True)


def _give_to_somebody_without_rights(*paths: Path) -> str | None:
    """The server refuses to run as root."""
    if os.getuid() != 0:
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    user = next(name for name in UNPRIVILEGED if name in known)
    for path in paths:
        shutil.chown(path, user)
    return user


def _run(command: list[object], user: str | None, *, check: bool = True) -> None:
    extra_groups = [] if user else None
    subprocess.run(
        [str(part) for part in command],
        check=check,
        user=user,
        extra_groups=extra_groups,
        cwd="/",
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=600,
    )
