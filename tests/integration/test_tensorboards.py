"""TensorBoards of tasks as real processes: how many, for how long, and what they cannot read."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx
import pytest

from app.kit.process.spawn import spawn
from app.kit.sandbox import landlock
from app.training.errors import BoardsTooMany, BoardUnavailable
from app.training.tensorboard import processes
from app.training.tensorboard.processes import Board, TensorBoards
from tests.harness.until import until

pytest.importorskip("tensorboard")
from tests.harness.training.event_files import write_events

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not landlock.version(), reason="this kernel has no Landlock, so no TensorBoard is started"),
]
PREFIX = "/ui/tasks/t/tensorboard"


@pytest.fixture
def homes(tmp_path: Path) -> Path:
    for name in ("alice", "bob"):
        write_events(tmp_path / "users" / name / "jobs" / "t" / "tensorboard", f"loss/{name}")
    return tmp_path


@pytest.fixture
def boards(homes: Path) -> Iterator[TensorBoards]:
    made = TensorBoards(homes, most=2, idle_s=300)
    yield made
    made.close()


@pytest.fixture
def short_folder() -> Iterator[str]:
    """What a process leaves behind that is killed; sockets lie there."""
    with TemporaryDirectory() as folder:
        yield folder


def opened(boards: TensorBoards, folder: Path, task_id: str = "t") -> Board:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        return boards.ensure(task_id, descriptor, PREFIX)
    finally:
        os.close(descriptor)


def asked(board: Board, path: str) -> str:
    async def ask() -> str:
        answer = await board.ask("GET", f"{PREFIX}/{path}", {}, b"")
        assert answer is not None
        return answer.content.decode()

    transport = httpx.AsyncHTTPTransport(uds=str(board.socket))  # of the loop of this call
    board.client = httpx.AsyncClient(transport=transport, timeout=60, base_url="http://board")
    return asyncio.run(ask())


def test_it_shows_the_curves_of_its_folder_and_follows_no_link_out_of_it(homes: Path, boards: TensorBoards) -> None:
    folder = homes / "users" / "alice" / "jobs" / "t"
    (folder / "stolen").symlink_to(homes / "users" / "bob" / "jobs" / "t" / "tensorboard")
    (folder / "tensorboard" / "events.out.tfevents.1.stolen").symlink_to(
        next((homes / "users" / "bob" / "jobs" / "t" / "tensorboard").iterdir())
    )
    board = opened(boards, folder)
    tags = until(lambda: asked(board, "data/plugin/scalars/tags"), lambda text: "loss/alice" in text)
    assert "loss/bob" not in tags
    assert "projector" not in json.loads(asked(board, "data/plugins_listing"))
    assert opened(boards, folder) is board


CONFINED = """
import os, socket, sys
from app.training.tensorboard.program import _confine
homes, own, other = sys.argv[1:]
os.chdir(own)
_confine(homes)
os.listdir(".")
for forbidden in (lambda: os.listdir(other), lambda: open("/etc/shadow"), lambda: open("new", "w"), socket.socket):
    try:
        forbidden()
    except PermissionError:
        continue
    sys.exit(f"it may: {forbidden}")
"""


def test_its_process_reads_its_folder_writes_nothing_and_opens_no_socket(homes: Path) -> None:
    own, other = (homes / "users" / name / "jobs" / "t" for name in ("alice", "bob"))
    done = subprocess.run(
        [sys.executable, "-c", CONFINED, homes, own, other], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_one_more_than_may_run_waits_for_one_that_is_idle(homes: Path, boards: TensorBoards) -> None:
    folder = homes / "users" / "alice" / "jobs" / "t"
    first, second = opened(boards, folder, "a"), opened(boards, folder, "b")
    with pytest.raises(BoardsTooMany, match="All 2 TensorBoards"):
        opened(boards, folder, "c")
    first.used_at -= processes.LEAST_IDLE_S
    opened(boards, folder, "c")
    assert not first.is_running and second.is_running


def test_another_attempts_folder_is_shown_instead_of_the_one_before(homes: Path, boards: TensorBoards) -> None:
    first = opened(boards, homes / "users" / "alice" / "jobs" / "t")
    again = homes / "users" / "alice" / "jobs" / "again"
    again.mkdir()
    second = opened(boards, again)
    assert second is not first and second.is_running and not first.is_running


def test_what_nobody_looks_at_ends_and_is_started_again(homes: Path) -> None:
    boards = TensorBoards(homes, most=1, idle_s=0.5)
    try:
        folder = homes / "users" / "alice" / "jobs" / "t"
        board = opened(boards, folder)
        until(lambda: board.is_running, lambda runs: not runs)
        assert opened(boards, folder) is not board
    finally:
        boards.close()


def test_it_ends_with_the_web_server(homes: Path, tmp_path: Path, short_folder: str) -> None:
    folder = homes / "users" / "alice" / "jobs" / "t"
    program = (
        "import os, sys, time\nfrom pathlib import Path\nfrom app.training.tensorboard.processes import TensorBoards\n"
        f"boards = TensorBoards(Path({str(homes)!r}), most=1, idle_s=300)\n"
        f"board = boards.ensure('t', os.open({str(folder)!r}, os.O_RDONLY), {PREFIX!r})\n"
        f"Path({str(tmp_path / 'pid')!r}).write_text(str(board.process.pid))\ntime.sleep(600)\n"
    )
    web = spawn([sys.executable, "-c", program], env={**os.environ, "TMPDIR": short_folder})
    try:
        pid = int(until(lambda: _text(tmp_path / "pid"), bool))
    finally:
        web.kill()
        web.wait()
    until(lambda: _text(Path(f"/proc/{pid}/cmdline")), lambda text: "tensorboard" not in text)


def test_where_it_is_not_offered_or_installed_that_is_said(
    homes: Path, boards: TensorBoards, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(BoardUnavailable, match="offers no TensorBoard"):
        TensorBoards(homes, most=0, idle_s=1).require_offered()
    monkeypatch.setattr(processes.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(BoardUnavailable, match="not installed") as refusal:
        boards.require_offered()
    assert "modelmill[tensorboard]" in refusal.value.hint


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
