from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.conversion.errors import NotFinite
from app.kit.sandbox import runner as module
from app.kit.sandbox.errors import (
    StageCancelled,
    StageCrashed,
    StageFailed,
    StageOutOfDisk,
    StageOutOfMemory,
    StageTimedOut,
)
from app.kit.sandbox.runner import Finished, Hooks, Limits, Sandbox, SandboxBusy
from tests.harness.until import PATIENCE_S, until

TARGETS = "tests.harness.sandbox_targets"
LIMITS = Limits(memory_bytes=1 << 30, time_s=150, threads=1)
SMALL = Limits(memory_bytes=300 << 20, time_s=150, threads=1)


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    made = Sandbox(libraries=[TARGETS])
    yield made
    made.close()


@pytest.fixture
def run(sandbox: Sandbox, tmp_path: Path) -> Callable[..., Finished]:
    def call(name: str, request: dict[str, Any] | None = None, **options: Any) -> Finished:
        limits = options.pop("limits", LIMITS)
        target = f"{TARGETS}:{name}"
        return sandbox.run(target, request or {}, work_dir=tmp_path, limits=limits, hooks=Hooks(**options))

    return call


def is_held(lock: Path) -> bool:
    """Does a process of the run live?"""
    with lock.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False


def has_begun(lock: Path) -> bool:
    return lock.exists() and lock.stat().st_size > 0


def test_a_result_comes_back_with_log_and_progress(run: Callable[..., Finished], tmp_path: Path) -> None:
    log: list[bytes] = []
    progress: list[tuple[float, str]] = []
    finished = run("answer", {"x": 1}, on_log=log.append, on_progress=lambda f, m: progress.append((f, m)))
    assert finished.result == {"seen": {"x": 1}, "cwd": str(tmp_path), "group": True}
    assert b"".join(log) == b"a line of the log\n"
    assert progress == [(0.5, "half")]
    assert finished.peak_bytes > 0


def test_a_library_rehearses_once_for_all_runs(run: Callable[..., Finished]) -> None:
    assert [run("rehearsals").result for _ in range(2)] == [{"elsewhere": [True]}] * 2


def test_a_crash_names_its_signal(run: Callable[..., Finished]) -> None:
    with pytest.raises(StageCrashed, match=r"^crashed: SIGSEGV$"):
        run("crash")


def test_after_a_crash_the_next_run_works(run: Callable[..., Finished]) -> None:
    with pytest.raises(StageCrashed):
        run("crash")
    assert run("answer").result["group"]


def test_too_much_memory_is_out_of_memory(run: Callable[..., Finished]) -> None:
    with pytest.raises(StageOutOfMemory, match=r"0\.3 GiB"):
        run("eat_memory", limits=SMALL)


def test_the_memory_of_all_processes_counts(run: Callable[..., Finished]) -> None:
    with pytest.raises(StageOutOfMemory):
        run("eat_memory_in_children", limits=SMALL)


@pytest.mark.parametrize(
    ("target", "files", "size"),
    [
        ("write_a_large_file", 1, 21 << 20),
        ("write_a_large_file_in_a_child", 1, 21 << 20),
        ("write_many_files", 7, 3 << 20),
        ("write_nameless_files", 7, 3 << 20),
    ],
)
def test_too_much_on_the_disk_is_out_of_disk_however_it_is_stored(
    run: Callable[..., Finished], tmp_path: Path, target: str, files: int, size: int
) -> None:
    (tmp_path / "input").write_bytes(bytes(1 << 20))
    with pytest.raises(StageOutOfDisk, match=r"^out of disk space: it stored more than the 0\.0 GiB"):
        run(target, {"files": files, "bytes": size}, limits=replace(LIMITS, disk_bytes=19 << 20))


def test_inputs_do_not_count_as_stored(run: Callable[..., Finished], tmp_path: Path) -> None:
    (tmp_path / "input").write_bytes(bytes(4 << 20))
    run("write_a_large_file", {"bytes": 1 << 20}, limits=replace(LIMITS, disk_bytes=2 << 20))


def test_too_long_is_timed_out_and_nothing_is_left(run: Callable[..., Finished], tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with pytest.raises(StageTimedOut, match=r"^timed out after 10000 s$"):
        run("hang", {"lock": str(lock)}, limits=Limits(1 << 30, 10_000, 1, used_s=9_999))
    assert not (lock.exists() and is_held(lock)), "a busy machine may end it before it has the lock"


def test_cancel_ends_the_whole_group_even_if_it_ignores_sigterm(run: Callable[..., Finished], tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with pytest.raises(StageCancelled):
        run("hang", {"lock": str(lock)}, should_stop=lambda: has_begun(lock))
    assert has_begun(lock) and not is_held(lock)


def test_a_process_that_the_tool_left_behind_is_killed(run: Callable[..., Finished], tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    run("leave_a_child", {"lock": str(lock)})
    assert not is_held(lock)


def test_an_error_of_ours_comes_back_as_itself(run: Callable[..., Finished]) -> None:
    with pytest.raises(NotFinite, match="output x is NaN") as caught:
        run("refuse")
    assert caught.value.hint == "look at sample 3"
    assert caught.value.detail == {"sample": 3}


def test_an_unforeseen_exception_is_a_failed_stage_with_its_text(run: Callable[..., Finished]) -> None:
    log: list[bytes] = []
    with pytest.raises(StageFailed, match="ValueError: nobody foresaw this"):
        run("stumble", on_log=log.append)
    assert b"Traceback" in b"".join(log)


def test_an_exit_without_a_result_is_told(run: Callable[..., Finished]) -> None:
    with pytest.raises(StageCrashed, match="exit code 3"):
        run("leave")


def test_sys_exit_in_the_tool_is_a_failed_stage(run: Callable[..., Finished]) -> None:
    with pytest.raises(StageFailed, match="SystemExit"):
        run("exit_politely")


def test_a_long_log_and_a_large_result_do_not_block_each_other(run: Callable[..., Finished]) -> None:
    size = 0

    def count(data: bytes) -> None:
        nonlocal size
        size += len(data)

    finished = run("talk_much", on_log=count)
    assert size == 1001 * 1000
    assert len(finished.result["large"]) == 1000


def test_runs_go_side_by_side(sandbox: Sandbox, tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    def one(number: int) -> int:
        target = "tests.harness.sandbox_targets:answer"
        return int(sandbox.run(target, {"n": number}, work_dir=tmp_path, limits=LIMITS).result["seen"]["n"])

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(one, range(12))) == list(range(12))


def test_a_killed_fork_server_is_replaced(tmp_path: Path) -> None:
    sandbox = Sandbox()
    sandbox.start()
    assert sandbox._server
    sandbox._server.kill()
    sandbox._server.wait()
    finished = sandbox.run("tests.harness.sandbox_targets:answer", {}, work_dir=tmp_path, limits=LIMITS)
    assert finished.result["group"]
    sandbox.close()


def test_libraries_that_cannot_be_loaded_are_named_and_the_next_run_tries_again(tmp_path: Path) -> None:
    sandbox = Sandbox(libraries=["no_such_library"])
    for _ in range(2):
        with pytest.raises(StageCrashed, match=r"could not load its libraries: ModuleNotFoundError: .*no_such_library"):
            sandbox.run("tests.harness.sandbox_targets:answer", {}, work_dir=tmp_path, limits=LIMITS)
    sandbox.start(libraries=[])
    assert sandbox.run("tests.harness.sandbox_targets:answer", {}, work_dir=tmp_path, limits=LIMITS).result["group"]
    sandbox.close()


PARENT = """
import sys
from pathlib import Path
from app.kit.sandbox.runner import Limits, Sandbox
folder = Path(sys.argv[1])
Sandbox().run("tests.harness.sandbox_targets:hang", {"lock": str(folder / "lock")}, work_dir=folder,
              limits=Limits(1 << 30, 60, 1))
"""


def test_when_the_worker_is_killed_its_stage_dies_with_it(tmp_path: Path) -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(tmp_path)])
    lock = tmp_path / "lock"
    until(lambda: has_begun(lock))
    assert is_held(lock)
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    until(lambda: not is_held(lock), what="the stage has ended with its worker")


def test_a_run_that_finds_no_room_in_time_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE_S", 0.1)
    narrow = Sandbox(at_once=1)
    begun, stop = threading.Event(), threading.Event()

    def first() -> None:
        hooks = Hooks(on_log=lambda _: begun.set(), should_stop=stop.is_set)
        with pytest.raises(StageCancelled):
            narrow.run("tests.harness.sandbox_targets:say_and_hang", {}, work_dir=tmp_path, limits=LIMITS, hooks=hooks)

    thread = threading.Thread(target=first)
    thread.start()
    assert begun.wait(PATIENCE_S)
    try:
        with pytest.raises(SandboxBusy):
            narrow.run("tests.harness.sandbox_targets:answer", {}, work_dir=tmp_path, limits=LIMITS)
        monkeypatch.setattr(module, "PATIENCE_S", 3600.0)
        for _ in range(module.MOST_WAITING):
            narrow._waiting.acquire()
        with pytest.raises(SandboxBusy):  # at once: those who wait hold threads enough
            narrow.run("tests.harness.sandbox_targets:answer", {}, work_dir=tmp_path, limits=LIMITS)
    finally:
        stop.set()
        thread.join()
    assert narrow.run("tests.harness.sandbox_targets:answer", {}, work_dir=tmp_path, limits=LIMITS).result
    narrow.close()


def test_a_request_may_be_longer_than_a_message_of_a_socket(run: Callable[..., Finished]) -> None:
    request = {"text": "x" * (2 << 20)}
    assert run("answer", request).result["seen"] == request
