"""What a demonstration leaves behind is said."""

from __future__ import annotations

from app.kit.errors import Conflict, NotFound
from app.standalone.demonstration import remove_each


def test_what_is_in_use_stays_and_the_reason_is_said() -> None:
    lines: list[str] = []
    removed: list[str] = []

    def remove(name: str) -> None:
        if name == "gone":
            raise NotFound("There is no stage.")
        if name == "used":
            raise Conflict("A video job uses it.", hint="Cancel the job first.")
        removed.append(name)

    remove_each("stage", ["gone", "used", "free"], remove, lines.append)
    assert removed == ["free"]
    assert lines == ["The stage used stays: A video job uses it. Cancel the job first."]
