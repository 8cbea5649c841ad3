"""docs/joint-inference.md says what there is."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from app.inference.prediction import Box, Prediction
from app.joint_inference.hard_examples import Verdict, load_algorithms
from app.joint_inference.model.resource import Role
from app.joint_inference.model.stream import ENDS
from app.joint_inference.validation import validate
from app.joint_inference.worker_options import worker_options
from tests.harness.paths import REPOSITORY

TEXT = (REPOSITORY / "docs" / "joint-inference.md").read_text()
ROWS = [line.split("|")[1] for line in TEXT.splitlines() if line.startswith("|")]


class Asked(dict[str, str]):
    """Parameters of which none is given. names: what was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.names = set[str]()

    def get(self, key: str, default: Any = None) -> Any:
        self.names.add(key)
        return default

    def __contains__(self, key: object) -> bool:
        self.names.add(str(key))
        return False


def parameters() -> list[str]:
    recorder = Asked()
    for role in Role:
        worker_options(role, recorder)
    assert len(recorder.names) > 10
    return sorted(recorder.names)


@pytest.mark.parametrize("name", parameters())
def test_every_parameter_of_the_bundled_workers_is_explained(name: str) -> None:
    assert any(f"`{name}`" in row for row in ROWS)


@pytest.mark.parametrize("name", sorted(name for name, algorithm in load_algorithms().items() if not algorithm.origin))
def test_every_algorithm_is_explained_with_its_parameters(name: str) -> None:
    (row,) = [line for line in TEXT.splitlines() if line.startswith("|") and f"`{name}`" in line.split("|")[1]]
    for parameter in load_algorithms()[name].parameters:
        assert f"`{parameter.key}`" in row


def test_the_example_is_a_service() -> None:
    example = re.search(r"```yaml\n(.*?)```", TEXT, re.DOTALL)
    assert example is not None
    assert validate(yaml.safe_load(example[1]))["metadata"]["name"] == "faces"


def test_the_algorithm_of_ones_own_works_as_it_stands_there() -> None:
    code = next(block for block in re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL) if "class Blurred" in block)
    space: dict[str, Any] = {}
    exec(code, space)
    algorithm = space["Blurred"]({"least": "0.5"})
    weak, sure = (Prediction(candidates=(Box(0, 0, 1, 1, score),)) for score in (0.4, 0.6))
    assert [algorithm(prediction).is_hard for prediction in (weak, sure, Prediction())] == [True, False, True]
    assert isinstance(algorithm(weak), Verdict)
    assert algorithm.never(candidate_threshold=0.2) == ""


def test_the_states_and_what_it_says_when_the_cloud_is_away_are_named() -> None:
    for word in (
        "Pending",
        "Running",
        "Failed",
        "Degraded",
        "InvalidResource",
        "edge_fallback",
        "RolloutStalled",
        "ModelsDiffer",
        *ENDS,
    ):
        assert word in TEXT
