"""What every look at a user's file shares: its folder, its limits, what an aborted check says."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from app.conversion.service.intake_sandbox import ABORTS, IntakeSandbox, aborts_refused
from app.kit.errors import BadInput, TooLarge
from app.kit.sandbox.errors import StageCrashed
from app.kit.sandbox.runner import Limits, Sandbox
from app.settings import Settings


class LimitsTaker:
    """Stands in for the sandbox: notes the limits of a run."""

    def __init__(self) -> None:
        self.limits: list[Limits] = []

    def run(self, target: str, request: dict[str, Any], *, work_dir: Path, limits: Limits) -> Any:
        self.limits.append(limits)
        return type("Finished", (), {"result": {"target": target}})()


@pytest.fixture
def sandbox() -> LimitsTaker:
    return LimitsTaker()


@pytest.fixture
def intake(tmp_path: Path, sandbox: LimitsTaker) -> IntakeSandbox:
    settings = Settings(data_dir=tmp_path, intake_memory_bytes=1 << 30, intake_time_s=60)
    return IntakeSandbox(settings, cast("Sandbox", sandbox))


def test_the_folder_goes_with_all_that_is_in_it_also_after_an_error(intake: IntakeSandbox) -> None:
    with pytest.raises(ValueError, match="no"), intake.folder("look-") as folder:
        assert folder.parent == intake.settings.work
        assert folder.name.startswith("look-")
        (folder / "unpacked").mkdir()
        (folder / "unpacked" / "a").write_bytes(b"a")
        raise ValueError("no")
    assert list(intake.settings.work.iterdir()) == []


@pytest.mark.parametrize(
    ("own_limits", "memory_bytes", "time_s"),
    [({}, 1 << 30, 60), ({"memory_bytes": 1 << 20, "time_s": 5}, 1 << 20, 5), ({"memory_bytes": 1 << 40}, 1 << 30, 60)],
)
def test_a_check_has_its_own_limits_and_never_more_than_the_settings_allow(
    intake: IntakeSandbox,
    sandbox: LimitsTaker,
    tmp_path: Path,
    own_limits: dict[str, float],
    memory_bytes: int,
    time_s: float,
) -> None:
    assert intake.run("m:f", {}, tmp_path, **own_limits) == {"target": "m:f"}
    assert sandbox.limits == [Limits(memory_bytes, time_s, 1)]


@pytest.mark.parametrize("abort", ABORTS)
def test_an_aborted_check_is_refused_with_its_cause(abort: type[StageCrashed]) -> None:
    refusal = aborts_refused("The model could not be checked", hint="Check it yourself.")
    with pytest.raises(BadInput, match=r"The model could not be checked: it died\.") as refused, refusal:
        raise abort("it died")
    assert refused.value.hint == "Check it yourself."
    assert refused.value.detail == {"cause": abort.code}


def test_other_errors_pass_as_they_are() -> None:
    with pytest.raises(TooLarge), aborts_refused("The model could not be checked", hint=""):
        raise TooLarge("too large")
