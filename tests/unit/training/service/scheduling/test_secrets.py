"""Secrets reach the program, and nothing that is kept or shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.training.errors import SecretUnusable
from app.training.model import FailureKind, State
from app.training.service.scheduling.secrets import Secrets
from tests.harness.training.scripted_ray import SPEC, Bench

VALUE = "s3cr3t-of-a-hub"


@pytest.fixture
def one(bench: Bench) -> Bench:
    """A task in an environment with a secret."""
    bench.secrets_folder.mkdir()
    (bench.secrets_folder / "hub").write_text(f"{VALUE}\n")
    write(bench, "pip: [tiny==1]\nenv: {SPEED: fast, HF_HOME: /x}\nsecrets: {HUB_TOKEN: hub}")
    return bench


def write(bench: Bench, text: str) -> None:
    bench.scheduler.context.environments.put("one", text.encode(), by="root", now=bench.now)


def begin(bench: Bench, name: str = "t") -> str:
    bench.add(name, 1, spec=f"{SPEC}environment: one\n", environment="one")
    bench.tick()
    return f"{name}--a01"


def test_ray_is_given_the_variables_the_packages_and_the_value_of_the_secret(one: Bench) -> None:
    begin(one)
    [submission] = one.ray.submissions
    assert submission.secrets == {"HUB_TOKEN": VALUE}
    assert (submission.env["SPEED"], submission.pip) == ("fast", ("tiny==1",))
    assert submission.env["HF_HOME"] != "/x", "what the product sets stands"
    assert "exec python3 " in submission.entrypoint
    assert VALUE not in repr(submission)


def test_a_secret_is_in_nothing_that_is_kept(one: Bench) -> None:
    submission_id = begin(one)
    one.ray.run(submission_id, log=f"token {VALUE}!\n".encode())
    one.tick()
    assert one.log(submission_id) == b"token ***!\n"
    one.ray.fail(submission_id, f"ValueError: bad token {VALUE}")
    one.ray.write(submission_id, f"ValueError: bad token {VALUE}\n".encode())
    one.tick()
    assert one.state("t") is State.FAILED
    kept = b"".join(path.read_bytes() for path in one.root.rglob("*") if path.is_file())
    assert VALUE.encode() not in kept and b'"HUB_TOKEN": "***"' in kept
    with one.database.read() as conn:
        dump = "".join(str(row) for table in conn.dialect.get_table_names(conn) for row in rows(conn, table))
    assert VALUE not in dump and "bad token ***" in dump


def rows(conn, table):  # type: ignore[no-untyped-def]
    return conn.exec_driver_sql(f"select * from {table}").all()


def test_one_that_lies_across_two_chunks_of_a_log_is_blotted_out(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("first-line-of-it\nsecond-line-of-it")
    secrets = Secrets(tmp_path)
    data = b"a first-line-of-it b\nsecond-line-of-it" * 3
    for size in range(1, 20):
        chunks = (data[at : at + size] for at in range(0, len(data), size))
        assert b"".join(secrets.blotted(chunks)) == b"a *** b\n***" * 3, size


def test_one_that_was_changed_meanwhile_is_blotted_out_still(one: Bench) -> None:
    submission_id = begin(one)
    (one.secrets_folder / "hub").write_text("another-value")
    one.ray.run(submission_id, log=f"{VALUE} another-value\n".encode())
    one.tick()
    assert one.log(submission_id) == b"*** ***\n"


def test_each_attempt_reads_it_anew(one: Bench) -> None:
    begin(one)
    (one.secrets_folder / "hub").write_text("another-value")
    begin(one, "u")
    assert [submission.secrets["HUB_TOKEN"] for submission in one.ray.submissions] == [VALUE, "another-value"]


@pytest.mark.parametrize("content", [None, b"short", b"x" * 70_000, b"\xff" * 10, b"with\0nul!"])
def test_a_task_whose_secret_cannot_be_used_fails_and_says_which(one: Bench, content: bytes | None) -> None:
    secret = one.secrets_folder / "hub"
    secret.unlink() if content is None else secret.write_bytes(content)
    begin(one)
    task = one.task("t")
    assert (task.state, task.failure_kind) == (State.FAILED, FailureKind.USER_ERROR)
    assert "The secret hub cannot be" in task.error_summary
    assert one.ray.submissions == []


def test_without_a_folder_there_are_none() -> None:
    with pytest.raises(SecretUnusable, match="has none"):
        Secrets(None).resolve({"A": "b"})
    assert Secrets(None).blot(b"anything") == b"anything"


def test_a_task_whose_environment_was_deleted_fails(one: Bench) -> None:
    with one.database.write() as conn:
        conn.exec_driver_sql("delete from training_environments")
    begin(one)
    assert "There is no environment one." in one.task("t").error_summary


def test_tasks_of_an_environment_hold_no_more_than_its_gpus_together(one: Bench) -> None:
    write(one, "max_gpus: 4")
    for name in ("a", "b"):
        one.add(name, 3, spec=f"{SPEC}environment: one\n", environment="one")
    one.add("other", 3)
    one.tick()
    assert one.submitted() == ["a--a01", "other--a01"]
    waiting = one.task("b").waiting
    assert waiting is not None and waiting.facts == {"environment": "one", "held": 3, "most": 4}
