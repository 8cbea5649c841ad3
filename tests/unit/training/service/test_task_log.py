"""Lines of a log that a reader looks for, in all of it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from app.homes.model import HomesOptions
from app.homes.service import Homes
from app.kit.clock import to_text
from app.kit.sql import Database
from app.training import store
from app.training.model import Attempt, Demand, NewTask, Task, Workload
from app.training.service import LineFilter, LogView, task_log
from app.training.service.scheduling.attempt_files import LogCopies
from app.training.service.task_log import log_of

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)
ATTEMPT = Attempt("one", 1, "one--a01", to_text(NOW))
WORKER = "\x1b[36m(WorkerDict pid=17, ip=10.0.0.2)\x1b[0m "


@pytest.fixture
def homes(tmp_path: Path, database: Database) -> Homes:
    made = Homes(HomesOptions(tmp_path / "homes"), database, None)
    made.files.create("alice")
    made.folders.begun("alice", ATTEMPT.folder, now=NOW)
    return made


@pytest.fixture
def task(database: Database) -> Task:
    with database.write() as conn:
        return store.add_task(conn, NewTask("one", "alice", Workload.PPO, "", Demand(1, 8, 24)), to_text(NOW))


def written(homes: Homes, text: bytes, most_bytes: int = 1 << 30) -> None:
    LogCopies(homes.files, most_bytes).replace("alice", ATTEMPT.folder, [text])


def seen(homes: Homes, task: Task, lines: LineFilter, tail: int = 100) -> LogView:
    return log_of(homes, task, [ATTEMPT], tail=tail, lines=lines)


def test_lines_are_found_by_their_text_however_far_up_they_stand(
    homes: Homes, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_log, "SEARCHED_BYTES", 1000)  # ends within lines
    written(homes, b"".join(b"step %d Loss\n" % step for step in range(3000)) + b"the end")
    view = seen(homes, task, LineFilter("STEP 7 loss"))
    assert (view.data, view.lines, view.is_whole) == (b"step 7 Loss\n", 1, False)
    assert seen(homes, task, LineFilter("THE END")).data == b"the end\n"


def test_of_very_many_lines_the_last_are_shown(homes: Homes, task: Task) -> None:
    written(homes, b"".join(b"step %d\n" % step for step in range(3000)))
    assert seen(homes, task, LineFilter("step"), tail=2).data == b"step 2998\nstep 2999\n"


def test_lines_are_found_under_their_colours_and_keep_them(homes: Homes, task: Task) -> None:
    line = b"loss=\x1b[31m0.3\x1b[0m\n"
    written(homes, b"loss=0.4\n" + line)
    assert seen(homes, task, LineFilter("loss=0.3")).data == line


def test_lines_of_one_process_or_rank_are_told_apart(homes: Homes, task: Task) -> None:
    written(homes, f"mine\n{WORKER}loaded\n[rank3]: failed\n{WORKER}trains\n".encode())
    view = seen(homes, task, LineFilter(process="WorkerDict pid=17, ip=10.0.0.2"))
    assert view.text == f"{WORKER}loaded\n{WORKER}trains\n"
    assert list(view.processes) == ["WorkerDict pid=17, ip=10.0.0.2", "rank 3"]
    assert seen(homes, task, LineFilter("fail", "rank 3")).text == "[rank3]: failed\n"
    assert seen(homes, task, LineFilter("loaded", "rank 3")).lines == 0


def test_a_log_of_which_the_end_alone_is_kept_says_so(homes: Homes, task: Task) -> None:
    written(homes, b"line\n" * 1000, most_bytes=1000)
    assert seen(homes, task, LineFilter()).is_cut
    written(homes, b"[modelmill: this is my own program]\n" * 1000)
    assert not seen(homes, task, LineFilter()).is_cut
