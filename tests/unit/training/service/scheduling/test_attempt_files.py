"""The folder of an attempt: the log is copied whole and in order, and nothing is written where a link leads."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from app.homes.files import HomeFiles
from app.homes.model import HomesOptions
from app.kit.errors import ModelmillError
from app.training.errors import RayUnreachable
from app.training.gateway import RayStatus
from app.training.model import FailureKind, State
from app.training.service.scheduling import LogCopies
from app.training.service.scheduling.attempt_files import GAP, find_continuation, write_files
from tests.harness.training.scripted_ray import Bench, ScriptedRay

JOB = "one--a01"
MOST_BYTES = 10_000


@pytest.fixture
def files(tmp_path: Path) -> HomeFiles:
    made = HomeFiles(HomesOptions(tmp_path / "homes"))
    made.create("alice")
    made.create("bob")
    return made


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "homes" / "users" / "alice" / "jobs" / JOB


@pytest.fixture
def copies(files: HomeFiles) -> LogCopies:
    return LogCopies(files, MOST_BYTES)


def lines(first: int, last: int) -> bytes:
    return b"".join(b"line %d\n" % number for number in range(first, last))


# --- what of a tail is new --------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("stored", "tail", "new"),
    [
        (b"", b"a\nb\n", None),
        (b"a\nb\n", b"a\nb\n", b""),
        (b"a\nb\n", b"a\nb\nc\n", b"c\n"),
        (b"a\nb\n", b"b\nc\nd\n", b"c\nd\n"),
        (b"a\nb\n", b"c\n", None),
        (b"a\na\nb\na\n", b"a\nb\na\nc\n", b"c\n"),
        (b"a\nab\n", b"ab\nb\n", b"b\n"),
        (b"a\n", b"", b""),
        (b"x\nx\nx\n", b"x\nx\nx\n", b""),
    ],
)
def test_what_follows_what_is_stored_is_found(stored: bytes, tail: bytes, new: bytes | None) -> None:
    assert find_continuation(stored, tail) == new


def test_a_log_of_empty_lines_is_compared_in_linear_time() -> None:
    many = b"\n" * 1_000_000
    assert find_continuation(many, many) == b""


# --- while the job runs -----------------------------------------------------------------------------
def test_a_copy_grows_by_what_is_new(copies: LogCopies, folder: Path) -> None:
    copies.grow("alice", JOB, lines(0, 3), is_whole=True)
    copies.grow("alice", JOB, lines(1, 5), is_whole=False)
    size = copies.grow("alice", JOB, lines(3, 5), is_whole=False)
    assert (folder / "driver.log").read_bytes() == lines(0, 5)
    assert size == len(lines(0, 5))


def test_a_gap_is_said(copies: LogCopies, folder: Path) -> None:
    copies.grow("alice", JOB, lines(0, 3), is_whole=True)
    copies.grow("alice", JOB, lines(10, 12), is_whole=False)
    copies.grow("alice", JOB, lines(10, 13), is_whole=False)
    assert (folder / "driver.log").read_bytes() == lines(0, 3) + GAP + lines(10, 13)


def test_a_copy_that_begins_in_the_middle_says_so(copies: LogCopies, folder: Path) -> None:
    copies.grow("alice", JOB, lines(10, 12), is_whole=False)
    assert (folder / "driver.log").read_bytes() == GAP + lines(10, 12)


def test_a_line_that_is_being_written_is_left_for_later(copies: LogCopies, folder: Path) -> None:
    copies.grow("alice", JOB, b"whole\nhal", is_whole=True)
    assert (folder / "driver.log").read_bytes() == b"whole\n"
    copies.grow("alice", JOB, b"whole\nhalf\n", is_whole=True)
    assert (folder / "driver.log").read_bytes() == b"whole\nhalf\n"


def test_a_copy_stays_below_its_limit_and_keeps_the_end(copies: LogCopies, folder: Path) -> None:
    for start in range(0, 3000, 100):
        size = copies.grow("alice", JOB, lines(max(0, start - 100), start + 100), is_whole=start == 0)
        assert size <= MOST_BYTES
    notice, _, rest = (folder / "driver.log").read_bytes().partition(b"\n")
    assert b"dropped" in notice
    assert str(MOST_BYTES).encode() in notice
    assert rest.endswith(lines(2900, 3000))


# --- at its end -------------------------------------------------------------------------------------
def test_the_whole_log_takes_the_place_of_what_was_copied(copies: LogCopies, folder: Path) -> None:
    copies.grow("alice", JOB, lines(50, 60), is_whole=False)
    assert copies.replace("alice", JOB, [lines(0, 60), lines(60, 100)]) == len(lines(0, 100))
    assert (folder / "driver.log").read_bytes() == lines(0, 100)


@pytest.mark.parametrize("chunk_bytes", [1, 997, 4096, 1_000_000])
def test_of_a_log_that_is_too_long_the_end_is_kept_and_the_rest_counted(
    copies: LogCopies, folder: Path, chunk_bytes: int
) -> None:
    whole = lines(0, 5000)
    chunks = (whole[at : at + chunk_bytes] for at in range(0, len(whole), chunk_bytes))
    size = copies.replace("alice", JOB, chunks)
    notice, _, rest = (folder / "driver.log").read_bytes().partition(b"\n")
    assert size == len(notice) + 1 + len(rest) <= MOST_BYTES
    assert whole.endswith(rest)
    assert f"the first {len(whole) - len(rest)} bytes were dropped".encode() in notice
    assert len(rest) > MOST_BYTES - 200


def test_a_log_without_end_does_not_fill_the_disk_while_it_is_copied(copies: LogCopies, folder: Path) -> None:
    sizes = []

    def chunks() -> Iterator[bytes]:
        for _ in range(100):
            yield b"x" * 999 + b"\n"
            sizes.append((folder / ".driver.log.part").stat().st_size)

    copies.replace("alice", JOB, chunks())
    assert max(sizes) <= 2 * MOST_BYTES


@pytest.mark.parametrize("above", [0, 1, 100])
def test_a_log_about_as_long_as_the_limit_is_kept_whole_or_says_what_is_missing(
    copies: LogCopies, folder: Path, above: int
) -> None:
    whole = b"x" * (MOST_BYTES - 1 + above) + b"\n"
    size = copies.replace("alice", JOB, [whole])
    kept = (folder / "driver.log").read_bytes()
    assert size == len(kept) <= MOST_BYTES
    assert (kept == whole) is (above == 0)
    if above:
        notice, _, rest = kept.partition(b"\n")
        assert f"the first {len(whole) - len(rest)} bytes were dropped".encode() in notice


def test_a_log_that_is_gone_leaves_the_copy_as_it_is(copies: LogCopies, folder: Path) -> None:
    copies.grow("alice", JOB, lines(0, 3), is_whole=True)
    assert copies.replace("alice", JOB, []) is None
    assert copies.end("alice", JOB, 7) == b"line 2\n"


def test_a_log_that_breaks_off_leaves_the_copy_as_it_is(copies: LogCopies, folder: Path) -> None:
    def broken() -> Iterator[bytes]:
        yield b"some\n"
        raise RayUnreachable("Ray does not answer.")

    copies.grow("alice", JOB, lines(0, 3), is_whole=True)
    with pytest.raises(RayUnreachable):
        copies.replace("alice", JOB, broken())
    assert (folder / "driver.log").read_bytes() == lines(0, 3)
    assert [path.name for path in folder.iterdir()] == ["driver.log"]


def test_what_a_killed_writer_left_is_no_obstacle(copies: LogCopies, folder: Path) -> None:
    folder.mkdir()
    (folder / ".driver.log.part").write_text("half")
    copies.replace("alice", JOB, [b"whole\n"])
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {"driver.log": b"whole\n"}


# --- what users and jobs do there -------------------------------------------------------------------
Plant = Callable[[Path, Path], None]


def link_the_file(folder: Path, secret: Path) -> None:
    folder.mkdir()
    (folder / "driver.log").symlink_to(secret)


def link_it_hard(folder: Path, secret: Path) -> None:
    folder.mkdir()
    os.link(secret, folder / "driver.log")


def link_the_part(folder: Path, secret: Path) -> None:
    folder.mkdir()
    (folder / ".driver.log.part").symlink_to(secret)


def link_the_papers(folder: Path, secret: Path) -> None:
    folder.mkdir()
    (folder / "jobspec.yaml").symlink_to(secret)


def put_a_pipe(folder: Path, secret: Path) -> None:
    folder.mkdir()
    os.mkfifo(folder / "driver.log")


REPLACEABLE = (link_the_file, link_it_hard, link_the_part, link_the_papers, put_a_pipe)


@pytest.mark.parametrize("plant", REPLACEABLE)
def test_what_was_planted_is_replaced_and_nothing_is_written_through_it(
    files: HomeFiles, copies: LogCopies, folder: Path, tmp_path: Path, plant: Plant
) -> None:
    secret = tmp_path / "homes" / "users" / "bob" / "models" / "driver.log"
    secret.write_bytes(lines(0, 1))
    plant(folder, secret)
    write_files(files, "alice", JOB, {"jobspec.yaml": b"a: 1\n"})
    copies.grow("alice", JOB, lines(0, 3), is_whole=True)
    assert (folder / "driver.log").read_bytes() == lines(0, 3)
    copies.replace("alice", JOB, [lines(0, 4)])
    for name, data in (("driver.log", lines(0, 4)), ("jobspec.yaml", b"a: 1\n")):
        assert (folder / name).read_bytes() == data
        assert not (folder / name).is_symlink()
    assert secret.read_bytes() == lines(0, 1)


def link_the_folder(folder: Path, elsewhere: Path) -> None:
    folder.symlink_to(elsewhere)


def link_all_jobs(folder: Path, elsewhere: Path) -> None:
    folder.parent.rmdir()
    folder.parent.symlink_to(elsewhere)
    (elsewhere / JOB).mkdir()


def put_a_file(folder: Path, elsewhere: Path) -> None:
    folder.write_text("mine")


def put_a_folder(folder: Path, elsewhere: Path) -> None:
    (folder / "driver.log").mkdir(parents=True)


@pytest.mark.parametrize("plant", [link_the_folder, link_all_jobs, put_a_file, put_a_folder])
@pytest.mark.parametrize("owner", ["alice", "bob"])
def test_where_there_is_no_way_round_it_nothing_is_written_at_all(
    copies: LogCopies, folder: Path, tmp_path: Path, plant: Plant, owner: str
) -> None:
    elsewhere = tmp_path / "homes" / "users" / owner / "models"
    plant(folder, elsewhere)
    before = sorted(elsewhere.rglob("*"))
    for write in (
        lambda: copies.grow("alice", JOB, b"a\n", is_whole=True),
        lambda: copies.replace("alice", JOB, [b"a\n"]),
    ):
        with pytest.raises(ModelmillError):
            write()
    assert sorted(elsewhere.rglob("*")) == before


def test_a_folder_that_its_user_removed_is_made_again(copies: LogCopies, folder: Path) -> None:
    copies.grow("alice", JOB, lines(0, 3), is_whole=True)
    (folder / "driver.log").unlink()
    folder.rmdir()
    copies.grow("alice", JOB, lines(0, 4), is_whole=True)
    assert (folder / "driver.log").read_bytes() == lines(0, 4)


# --- in the tick ------------------------------------------------------------------------------------
def test_the_log_can_be_read_while_the_job_runs_and_is_whole_at_its_end(bench: Bench, ray: ScriptedRay) -> None:
    job = bench.running("one")
    ray.write(job, lines(0, 10))
    bench.tick(5)
    assert bench.log(job) == lines(0, 10)
    assert bench.attempts("one")[0].log_bytes == len(lines(0, 10))
    ray.write(job, lines(10, 7000))
    bench.tick(5)
    assert GAP in bench.log(job)
    ray.write(job, b"the end, without a newline")
    ray.end(job)
    bench.tick(5)
    assert bench.log(job) == lines(0, 7000) + b"the end, without a newline"
    assert bench.attempts("one")[0].log_bytes == len(bench.log(job))


def test_the_log_survives_the_node_and_tells_why(bench: Bench, ray: ScriptedRay) -> None:
    job = bench.running("one", infra_retries=0)
    ray.write(job, b"Total available GPUs 0 is less than total desired GPUs 8\n")
    bench.tick(5)
    ray.jobs[job].log = b""
    ray.end(job, RayStatus.FAILED, exit_code=1)
    bench.tick(5)
    assert bench.log(job).startswith(b"Total available")
    assert bench.attempts("one")[0].failure_kind is FailureKind.INSUFFICIENT_RESOURCES


@pytest.mark.parametrize("plant", [link_the_folder, put_a_file])
def test_a_task_whose_folder_was_put_out_of_reach_still_ends(
    bench: Bench, ray: ScriptedRay, folder: Path, tmp_path: Path, plant: Plant
) -> None:
    job = bench.running("one")
    other = bench.running("other", 0)
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    plant(folder, tmp_path)
    ray.write(job, b"a\n")
    ray.write(other, b"b\n")
    bench.tick(5)
    assert bench.log(other) == b"b\n"
    ray.write(job, b"Total available GPUs 0 is less than total desired GPUs 8\n")
    ray.fail(job, "")
    bench.tick(5)
    assert bench.attempts("one")[0].failure_kind is FailureKind.INSUFFICIENT_RESOURCES
    assert not (tmp_path / "driver.log").exists()


def test_a_link_where_the_folder_of_a_new_attempt_is_to_be_keeps_it_from_starting(
    bench: Bench, ray: ScriptedRay, folder: Path, tmp_path: Path
) -> None:
    bench.add("one")
    folder.symlink_to(tmp_path)
    bench.tick()
    assert (bench.state("one"), bench.task("one").failure_kind) == (State.FAILED, FailureKind.USER_ERROR)
    assert bench.submitted() == []
    assert not (tmp_path / "jobspec.yaml").exists()


def test_a_disk_that_is_full_says_nothing_of_the_task(
    bench: Bench, ray: ScriptedRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.add("one")
    mkdir = os.mkdir
    with monkeypatch.context() as patched:
        patched.setattr(os, "mkdir", lambda *_, **__: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        bench.tick()
    assert os.mkdir is mkdir
    assert (bench.state("one"), bench.submitted()) == (State.SUBMITTING, [])
    bench.tick()
    assert (bench.state("one"), bench.submitted()) == (State.SUBMITTED, [JOB])
