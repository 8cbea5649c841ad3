"""What tasks are called: readable, and nothing that Ray could not let go of again."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone

import pytest

from app.training.model import Workload, submission_id
from app.training.service.ids import new_task_id

NOW = datetime(2025, 12, 23, 14, 32, 1, tzinfo=UTC)


def test_an_id_says_who_what_and_when() -> None:
    task_id = new_task_id("mvp2", "alice", Workload.PPO, NOW)
    assert re.fullmatch(r"mvp2-alice-ppo-20251223-143201-[0-9a-f]{4}", task_id)
    east = NOW.astimezone(timezone(timedelta(hours=8)))
    assert new_task_id("mvp2", "alice", Workload.PPO, east)[:-4] == task_id[:-4]


def test_two_in_one_second_differ() -> None:
    assert len({new_task_id("mvp2", "alice", Workload.SFT, NOW) for _ in range(20)}) > 10


@pytest.mark.parametrize("user", ["a.b_c-d", "x" * 32, "a" + "._" * 15 + "z"])
@pytest.mark.parametrize("prefix", ["mvp2", "p" * 12, "p" * 90])
def test_every_user_gets_an_id_that_ray_can_keep(user: str, prefix: str) -> None:
    task_id = new_task_id(prefix, user, Workload.SCRIPT, NOW)
    assert len(task_id) <= 95
    assert re.fullmatch(r"[a-z0-9][a-z0-9-]{0,95}--a\d{2,3}", submission_id(task_id, 100))
    assert "-script-20251223-143201-" in task_id
