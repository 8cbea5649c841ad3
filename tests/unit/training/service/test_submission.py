"""A new task: what it is called, and which paths it may name."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from app.homes.errors import PathRefused
from app.homes.model import HomesOptions
from app.homes.path_rules import PathRules
from app.training.model import Workload, submission_id
from app.training.service.submission import new_task_id
from app.training.service.submission_checks import check_paths
from app.training.spec import ConvertSpec, TaskSpec

NOW = datetime(2025, 12, 23, 14, 32, 1, tzinfo=UTC)
MINE = "/private/users/alice"
DATA = f"{MINE}/datasets/d"


# --- what it is called ----------------------------------------------------------------------------
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


# --- its paths: its user's and the common ones, and code that is nobody's but the operator's -------------
@pytest.fixture
def root(tmp_path: Path) -> Path:
    for folder in (
        "common/code/verl/verl",
        "common/code/digits/inner",
        "common/models/m",
        "common/db",
        "users/bob/datasets",
        "users/alice/models/m",
        "users/alice/code/verl/verl",
        "users/alice/datasets/pictures",
    ):
        (tmp_path / folder).mkdir(parents=True)
    for file in (
        "common/code/digits/train.py",
        "common/db/state",
        "users/alice/datasets/d",
        "users/bob/datasets/d",
        "users/alice/code/train.py",
    ):
        (tmp_path / file).write_bytes(b"fine")
    return tmp_path


@pytest.fixture
def rules(root: Path) -> PathRules:
    return PathRules(HomesOptions(root))


def verl(**fields: Any) -> TaskSpec:
    given: dict[str, Any] = {"train_file": DATA, "val_file": DATA, "code_path": "/private/common/code/verl"}
    if "model_path" not in fields:
        given["model_id"] = "gpt2"
    return TaskSpec(workload=Workload.PPO, n_gpus_per_node=1, **{**given, **fields})


def script(**fields: Any) -> TaskSpec:
    return TaskSpec(workload=Workload.SCRIPT, **{"code_path": "/private/common/code/digits", **fields})


def refusal(rules: PathRules, spec: TaskSpec) -> tuple[str, str]:
    """The field that is refused, and why."""
    with pytest.raises(PathRefused) as raised:
        check_paths(rules, "alice", spec)
    [problem] = raised.value.detail["problems"]
    assert raised.value.message == f"{problem['at']}: {problem['problem']}"
    return problem["at"], problem["problem"]


@pytest.mark.parametrize(
    "spec",
    [
        verl(),
        verl(model_path=f"{MINE}/models/m"),
        verl(model_path="/private/common/models/m/"),
        verl(code_path=None),
        verl(code_path="/private/common/code/verl/"),
        script(),
        script(train_file=DATA),
        script(convert=ConvertSpec(images=f"{MINE}/datasets/pictures")),
        script(convert=ConvertSpec(images=DATA)),
        script(convert=ConvertSpec(images="made/by/the/job")),
    ],
)
def test_ones_own_files_and_the_common_ones_are_fine(rules: PathRules, spec: TaskSpec) -> None:
    check_paths(rules, "alice", spec)


@pytest.mark.parametrize(
    "field", ["train_file", "val_file", "model_path", "reward_model", "code_path", "convert.images"]
)
@pytest.mark.parametrize("path", ["/etc/passwd", "/private/users/bob/datasets/d"])
def test_every_trick_is_refused_by_the_name_of_its_field(rules: PathRules, field: str, path: str) -> None:
    spec = script(convert=ConvertSpec(images=path)) if field == "convert.images" else verl(**{field: path})
    assert refusal(rules, spec)[0] == field


@pytest.mark.parametrize("spec", [verl(code_path=f"{MINE}/code/verl"), script(code_path=f"{MINE}/code")])
def test_code_in_ones_own_home_does_not_run(rules: PathRules, spec: TaskSpec) -> None:
    field, problem = refusal(rules, spec)
    assert field == "code_path"
    assert "/private/common/" in problem


def test_a_program_that_leads_into_a_home_does_not_run(rules: PathRules, root: Path) -> None:
    (root / "common/code/digits/evil.py").symlink_to(root / "users/alice/code/train.py")
    assert refusal(rules, script(program="evil.py"))[0] == "program"


@pytest.mark.parametrize("program", ["missing.py", "inner"])
def test_the_program_is_a_file_in_its_folder(rules: PathRules, program: str) -> None:
    assert refusal(rules, script(program=program))[0] == "program"


def test_a_snapshot_of_verl_has_verl_in_it(rules: PathRules) -> None:
    field, problem = refusal(rules, verl(code_path="/private/common/code/digits"))
    assert field == "code_path"
    assert "/private/common/code/digits/verl" in problem


def test_a_model_lies_among_the_models(rules: PathRules) -> None:
    assert refusal(rules, verl(model_path=DATA))[0] == "model_path"


def test_of_several_the_first_is_named(rules: PathRules) -> None:
    assert refusal(rules, verl(train_file="/etc/a", val_file="/etc/b", code_path="/etc/c"))[0] == "code_path"
