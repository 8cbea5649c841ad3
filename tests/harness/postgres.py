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
from tests.harness.shared_server import shared_server

INSTALLED = Path("/usr/lib/postgresql")
PASSWORD = "only-for-tests"
UNPRIVILEGED = ("postgres", "nobody")
MIGRATED = "migrated"
"""A database of the shared server."""


class PostgresServer:
    def __init__(self, port: int) -> None:
        self.port = port

    def new_database(self, *, name: str = "", like: str = "template1") -> str:
        """The URL of a copy of this one; by default it is empty."""
        name = name or f"test_{uuid.uuid4().hex[:12]}"
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}" TEMPLATE "{like}"'.encode())
        return self.url(name)

    def migrated_database(self) -> str:
        """The URL of one of this program's version, and nothing in it: a copy of the one that the shared server has."""
        return self.new_database(like=MIGRATED)

    def url(self, name: str) -> str:
        return f"postgresql://postgres:{PASSWORD}@127.0.0.1:{self.port}/{name}"


@contextmanager
def postgres_server() -> Iterator[PostgresServer]:
    """One of its own. Skips where PostgreSQL is not installed, but fails in CI."""
    line = _start()
    try:
        yield _server_of(line)
    finally:
        _stop(line)


@contextmanager
def shared_postgres_server(folder: Path) -> Iterator[PostgresServer]:
    """The one of the run that has this folder; likewise."""
    with shared_server(folder, "postgres", _start_migrated, _stop) as line:
        yield _server_of(line)


def _server_of(line: str) -> PostgresServer:
    return PostgresServer(int(line.partition(" ")[0]))


def _start_migrated() -> str:
    line = _start()
    database = Database(_server_of(line).new_database(name=MIGRATED))
    upgrade(database, MIGRATIONS)
    database.close()
    return line


def _start() -> str:
    """Its port and its folder."""
    if not list(INSTALLED.glob("*/bin/initdb")):
        missing = "There is no PostgreSQL: apt-get install --no-install-recommends postgresql"
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)
    folder, port = Path(tempfile.mkdtemp(prefix="modelmill-pg-")), free_port()
    data, secret = folder / "data", folder / "password"
    secret.write_text(PASSWORD)
    user = _give_to_somebody_without_rights(folder, secret)
    begin = [
        _program("initdb"),
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
    options += " -c max_connections=400"  # of all processes of a run
    options += " -c autovacuum=off"  # it would look at hundreds of databases each minute
    start = [_program("pg_ctl"), "-D", data, "-w", "-t", "60", "-l", folder / "log", "-o", options, "start"]
    line = f"{port} {folder}"
    try:
        _run(begin, user)
        _run(start, user)
    except BaseException:
        _stop(line)
        raise
    return line


def _stop(line: str) -> None:
    folder = Path(line.partition(" ")[2])
    command = [_program("pg_ctl"), "-D", folder / "data", "-w", "-t", "60", "-m", "immediate", "stop"]
    _run(command, folder.owner() if os.getuid() == 0 else None, check=False)
    shutil.rmtree(folder, ignore_errors=True)


def _program(name: str) -> Path:
    return sorted(INSTALLED.glob(f"*/bin/{name}"))[-1]


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
    extra_groups: list[str] | None = [] if user else None
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
