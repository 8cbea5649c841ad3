"""Data homes: a pass of the janitor over expired folders of jobs, a long listing, an SFTP upload against cp.

MODELMILL_BENCH_MB sets the size of the upload, 1024 by default. The client is OpenSSH's sftp, without its start and
log-in: those are measured with an empty file and taken off.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from app.homes import store
from app.kit.clock import now
from tests.harness.sftp import SftpServer, has_client

MIB = 1 << 20
SIZE_MIB = int(os.environ.get("MODELMILL_BENCH_MB", "1024"))
FOLDERS = FILES = 10_000
USERS = 10
ROUNDS = 3
AIM_PASS_S, AIM_LIST_MS, AIM_MB_S, AIM_RATIO = 10, 300, 100, 0.5


def main() -> None:
    if not has_client():
        raise SystemExit("OpenSSH's client is needed: apt-get install openssh-client")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        deployment = SftpServer(folder)
        try:
            home = deployment.user("alice")
            rows = [*_retention(deployment), _listing(deployment, home), *_upload(deployment, home, folder)]
        finally:
            deployment.close()
    print(f"\n{'':52} {'measured':>12} {'aim':>24}")
    for what, measured, aim in rows:
        print(f"{what:52} {measured:>12} {aim:>24}")


def _retention(deployment: SftpServer) -> list[tuple[str, str, str]]:
    ended_at = datetime(2026, 1, 1, tzinfo=UTC)
    for number in range(USERS):
        home = deployment.user(f"user{number}", has_key=False)
        with deployment.accounts.database.write() as conn:
            for run in range(FOLDERS // USERS):
                path = home / "jobs" / f"run-{run}"
                path.mkdir()
                (path / "driver.log").write_bytes(b"x" * 100)
                store.folder_ended(conn, f"user{number}", path.name, ended_at)
    rows = []
    for what, age in (("into the trash", timedelta(days=3)), ("out of it", timedelta(days=10))):
        seconds = _seconds(lambda age=age: deployment.homes.clear(ended_at + age))  # type: ignore[misc]
        rows.append((f"janitor: {FOLDERS} folders of jobs {what}", f"{seconds:.1f} s", f"< {AIM_PASS_S} s"))
    idle = _seconds(lambda: deployment.homes.clear(now()))
    left = sum(len(list(path.iterdir())) for path in deployment.settings.homes.glob("users/*/trash/jobs"))
    assert left == 0, f"{left} folders were left"
    return [*rows, ("janitor: nothing to do", f"{idle * 1000:.0f} ms", "")]


def _listing(deployment: SftpServer, home: Path) -> tuple[str, str, str]:
    folder = home / "datasets" / "many"
    folder.mkdir()
    for number in range(FILES):
        (folder / f"picture-{number:05}.jpg").touch()
    around = _median(lambda: deployment.batch("alice", "ls -l datasets"))
    milliseconds = (_median(lambda: deployment.batch("alice", "ls -l datasets/many")) - around) * 1000
    shutil.rmtree(folder)
    return f"sftp: ls -l of {FILES} files", f"{milliseconds:.0f} ms", f"< {AIM_LIST_MS} ms"


def _upload(deployment: SftpServer, home: Path, folder: Path) -> list[tuple[str, str, str]]:
    local, empty = folder / "local", folder / "empty"
    empty.touch()
    with local.open("wb") as file:
        for _ in range(SIZE_MIB):
            file.write(os.urandom(MIB))

    def put() -> None:
        deployment.batch("alice", f"put {local} datasets/big")

    def get() -> None:
        deployment.batch("alice", f"get datasets/big {folder / 'back'}")

    def copy() -> None:
        subprocess.run(["/bin/cp", str(local), str(home / "models" / "big")], check=True)

    around = _median(lambda: deployment.batch("alice", f"put {empty} datasets/empty"))
    seconds: dict[str, list[float]] = {"cp": [], "put": [], "get": []}
    for _ in range(ROUNDS):
        for name, work in (("cp", copy), ("put", put), ("get", get)):
            os.sync()  # what one side left to write must not slow the next
            seconds[name].append(_seconds(work) - (0 if name == "cp" else around))
    speeds = {name: SIZE_MIB * MIB / 1e6 / statistics.median(times) for name, times in seconds.items()}
    aim = f">= {AIM_MB_S} MB/s or {AIM_RATIO} of cp"
    return [
        (f"cp of {SIZE_MIB} MiB on this disk", f"{speeds['cp']:.0f} MB/s", ""),
        (f"sftp: put of {SIZE_MIB} MiB", f"{speeds['put']:.0f} MB/s", aim),
        (f"sftp: get of {SIZE_MIB} MiB", f"{speeds['get']:.0f} MB/s", ""),
        ("sftp: start, log-in and an empty file", f"{around * 1000:.0f} ms", ""),
    ]


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _median(work: Callable[[], object]) -> float:
    return statistics.median(_seconds(work) for _ in range(ROUNDS))
