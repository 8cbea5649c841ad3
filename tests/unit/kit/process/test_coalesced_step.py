"""A step that many threads ask for and one at a time carries out."""

from __future__ import annotations

import threading

import pytest

from app.kit.process.coalesced_step import CoalescedStep


def test_who_asks_while_it_runs_does_not_wait_and_has_it_run_once_more() -> None:
    begun, may_end, runs = threading.Event(), threading.Event(), list[int]()

    def step() -> None:
        runs.append(threading.get_ident())
        begun.set()
        assert may_end.wait(60)

    coalesced = CoalescedStep(step)
    first = threading.Thread(target=coalesced.run)
    first.start()
    assert begun.wait(60)
    coalesced.run()
    coalesced.run()
    assert runs == [first.ident], "nobody else runs it"
    may_end.set()
    first.join(60)
    assert runs == [first.ident] * 2, "once for both who asked meanwhile"


def test_after_an_error_it_runs_for_the_next_who_asks() -> None:
    left = [RuntimeError("no"), None]

    def step() -> None:
        if (error := left.pop(0)) is not None:
            raise error

    coalesced = CoalescedStep(step)
    with pytest.raises(RuntimeError, match="no"):
        coalesced.run()
    coalesced.run()
    assert not left
