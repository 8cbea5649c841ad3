"""An answer has the fields of what it tells of."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from pydantic import BaseModel, ValidationError

from app.kit.web.http import answer_of


@dataclass
class Machine:
    name: str
    tags: tuple[str, ...]
    secret: str


@dataclass
class Load:
    name: str
    cpu: float


class MachineAnswer(BaseModel):
    name: str
    tags: list[str]
    cpu: float
    place: str


MACHINE = Machine("a", ("x",), "hidden")


def test_of_a_name_that_several_have_the_last_counts_and_what_is_given_before_all() -> None:
    answer = answer_of(MachineAnswer, MACHINE, Load("b", 0.5), place="here")
    assert answer == MachineAnswer(name="b", tags=["x"], cpu=0.5, place="here")
    assert answer_of(MachineAnswer, MACHINE, Load("b", 0.5), place="here", name="c").name == "c"


def test_what_the_model_does_not_name_is_not_told() -> None:
    assert "hidden" not in answer_of(MachineAnswer, MACHINE, cpu=1, place="here").model_dump_json()


def test_a_field_that_nobody_has_is_refused() -> None:
    with pytest.raises(ValidationError):
        answer_of(MachineAnswer, MACHINE, place="here")
