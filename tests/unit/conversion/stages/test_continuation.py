"""When a stage whose process dies goes on in another one."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.conversion.stages.continuation import CONTINUED_MOST, run_with_continuation
from app.kit.errors import ModelmillError
from app.kit.sandbox.errors import StageCrashed, StageFailed, StageOutOfMemory, StageTimedOut
from app.kit.sandbox.runner import Finished, Limits

LIMITS = Limits(memory_bytes=1 << 30, time_s=60.0, threads=1)
DONE = Finished({}, 1.0, 1.0, 1)


class Dying:
    """A stage whose processes end with these errors, one after the other, and then well."""

    def __init__(self, *errors: ModelmillError) -> None:
        self.errors, self.used_s = list(errors), list[float]()

    def __call__(self, *, limits: Limits) -> Finished:
        assert limits.time_s == LIMITS.time_s, "what a stage that is too slow is told"
        self.used_s.append(limits.used_s)
        if self.errors:
            raise self.errors.pop(0)
        return DONE


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    path = tmp_path / "search.jsonl"
    path.write_text('{"work": ""}\n{"name": "a"}\n{"name": "a", "value": 1}\n{"name": "b"}\n')
    return path


@pytest.mark.parametrize("error", [StageCrashed("crashed: SIGSEGV"), StageOutOfMemory("killed (SIGKILL)")])
def test_a_process_that_dies_is_followed_by_another_within_the_same_time_and_the_log_says_so(
    journal: Path, error: ModelmillError
) -> None:
    run, log = Dying(error), list[bytes]()
    assert run_with_continuation(run, LIMITS, journal, log.append) is DONE
    first_s, second_s = run.used_s
    assert first_s == 0.0 < second_s
    assert f"({error.message}); another goes on after 1 measurements".encode() in log[0]


def test_without_a_result_to_go_on_from_the_stage_fails_at_once(tmp_path: Path, journal: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(journal)
    empty = tmp_path / "empty.jsonl"
    empty.write_text('{"work": ""}\n{"name": "a"}\n')
    for path in (tmp_path / "missing", empty, link):
        run = Dying(StageCrashed("crashed: SIGSEGV"))
        with pytest.raises(StageCrashed):
            run_with_continuation(run, LIMITS, path, lambda _: None)
        assert len(run.used_s) == 1


@pytest.mark.parametrize("error", [StageFailed("no"), StageTimedOut("timed out after 60 s")])
def test_a_stage_that_fails_or_has_no_time_left_is_not_tried_again(journal: Path, error: ModelmillError) -> None:
    run = Dying(error)
    with pytest.raises(type(error)):
        run_with_continuation(run, LIMITS, journal, lambda _: None)
    assert len(run.used_s) == 1


def test_a_process_that_dies_each_time_is_not_followed_for_ever(journal: Path) -> None:
    run = Dying(*[StageCrashed("crashed: SIGSEGV")] * 9)
    with pytest.raises(StageCrashed):
        run_with_continuation(run, LIMITS, journal, lambda _: None)
    assert len(run.used_s) == CONTINUED_MOST + 1
