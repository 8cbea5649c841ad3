"""Which fields of the form of a new task are folded away."""

from __future__ import annotations

from app.training.model import Workload
from app.training.pages.new_form import empty_values, folds_of

EMPTY = empty_values(Workload.SFT)


def opened(problems: dict[str, str] | None = None, **values: str) -> list[str]:
    return [name for name, (_, is_open) in folds_of({**EMPTY, **values}, problems or {}).items() if is_open]


def test_one_group_at_most_is_open_a_wrong_one_before_a_filled_one() -> None:
    assert opened() == []
    assert opened(save_freq="5") == ["checkpoints"]
    assert opened(save_freq="5", vary="total_epochs: [1, 2]") == ["sweep"]
    assert opened({"max_run_s": "it is no number"}, vary="total_epochs: [1, 2]", max_run_s="x") == ["limits"]


def test_a_closed_group_tells_how_many_of_its_fields_are_filled_in() -> None:
    counts = {name: count for name, (count, _) in folds_of({**EMPTY, "save_freq": "5", "keep_best": "1"}, {}).items()}
    assert counts == {"checkpoints": 2, "limits": 0, "sweep": 0}
