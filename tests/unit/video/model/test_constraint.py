"""What a user may demand, and what is refused."""

from __future__ import annotations

import pytest

from app.video.errors import BadConstraint
from app.video.model.constraint import LEVELS, Constraint, read_constraint


@pytest.mark.parametrize(
    ("data", "lo", "hi", "quality"),
    [
        (None, -1, 0.8, 0.0),
        ({}, -1, 0.8, 0.0),
        ({"delay": 0.3, "accuracy": 10}, -1, 0.3, LEVELS[5]),  # the requirement's
        ({"delay": [-1, 50], "acc_level": 5}, -1, 50, LEVELS[5]),  # the requirement's
        ({"delay": 1}, -1, 1, 0.0),
        ({"delay": [0.1, 0.4]}, 0.1, 0.4, 0.0),
        ({"delay": [0, 0.4]}, 0, 0.4, 0.0),
        ({"accuracy": 0.85}, -1, 0.8, 0.85),
        ({"accuracy": 1}, -1, 0.8, 1.0),
        ({"accuracy": 3}, -1, 0.8, LEVELS[3]),
        ({"acc_level": 0}, -1, 0.8, 0.0),
        ({"acc_level": 1, "delay": None}, -1, 0.8, LEVELS[1]),
    ],
)
def test_a_constraint_is_read(data: object, lo: float, hi: float, quality: float) -> None:
    read = read_constraint(data)
    assert (read.lo, read.hi, read.quality) == (lo, hi, quality)
    assert read_constraint(read.to_json()) == read


def test_it_is_written_as_it_was_given() -> None:
    given = {"delay": [-1, 50], "acc_level": 5}
    assert read_constraint(given).to_json() == given
    assert read_constraint({"acc_level": 2}).to_json() == {"acc_level": 2, "delay": 0.8}
    assert Constraint().to_json() == {"delay": 0.8, "accuracy": 0.0}
    assert Constraint(0.1, 0.3, 0.9).to_json() == {"delay": [0.1, 0.3], "accuracy": 0.9}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (1, "user_constraint: is 1, not an object"),
        ([], "user_constraint: is a list"),
        ({"latency": 1}, "user_constraint.latency: is not known"),
        ({"delay": "0.3"}, "user_constraint.delay: is '0.3', not a number"),
        ({"delay": True}, "user_constraint.delay: is true, not a number"),
        ({"delay": {}}, "user_constraint.delay: is an object, not a number"),
        ({"delay": float("nan")}, "user_constraint.delay: is nan"),
        ({"delay": float("inf")}, "user_constraint.delay: is inf"),
        ({"delay": 10**400}, "user_constraint.delay: is a huge number"),
        ({"delay": 0}, "user_constraint.delay: 0.0 s is no delay"),
        ({"delay": -1}, "user_constraint.delay: -1.0 s is no delay"),
        ({"delay": 3601}, "user_constraint.delay: 3601.0 s is no delay"),
        ({"delay": []}, "user_constraint.delay: has 0 numbers"),
        ({"delay": [0.1, 0.2, 0.3]}, "user_constraint.delay: has 3 numbers"),
        ({"delay": [0.1, "x"]}, "user_constraint.delay[1]: is 'x'"),
        ({"delay": [0.3, 0.1]}, "user_constraint.delay: [0.3, 0.1] is no range"),
        ({"delay": [0.3, 0.3]}, "is no range"),
        ({"delay": [-0.5, 0.3]}, "is no range"),
        ({"accuracy": "high"}, "user_constraint.accuracy: is 'high'"),
        ({"accuracy": -0.1}, "user_constraint.accuracy: -0.1 is neither"),
        ({"accuracy": 1.5}, "user_constraint.accuracy: 1.5 is neither"),
        ({"accuracy": 11}, "user_constraint.accuracy: 11 is neither"),
        ({"acc_level": 6}, "user_constraint.acc_level: is 6; it must be 0 to 5"),
        ({"acc_level": -1}, "user_constraint.acc_level: is -1"),
        ({"acc_level": 2.0}, "user_constraint.acc_level: is 2.0, not a whole number"),
        ({"acc_level": True}, "user_constraint.acc_level: is true"),
        ({"acc_level": 2, "accuracy": 0.5}, "has both accuracy and acc_level"),
    ],
)
def test_what_is_none_is_refused(data: object, message: str) -> None:
    with pytest.raises(BadConstraint) as caught:
        read_constraint(data)
    assert message in caught.value.message and caught.value.status == 400
