"""Is it worth it? Both models and the algorithm on real pictures, without workers and without a line between them."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import pytest

from app.inference.prediction import Prediction
from app.inference.predictor_factory import open_predictor
from app.joint_inference.hard_examples import make
from tests.harness.joint.data_sets import Case, Side, digits, mixed
from tests.harness.paths import REPOSITORY, SHARED_DATA

pytestmark = pytest.mark.skipif(not SHARED_DATA.is_dir(), reason=f"real models and pictures are needed: {SHARED_DATA}")
MARGIN = 0.02
"""More than so much better than chance at the same share."""


@dataclass(frozen=True)
class Measured:
    """Shares of right answers, and of pictures that go up. random: on average, if as many went up by lot."""

    edge: float
    cloud: float
    joint: float
    upload: float

    @property
    def random(self) -> float:
        return self.edge + self.upload * (self.cloud - self.edge)


def third_of_mixed() -> Case:
    """Every third picture: so much of it tells as much. `ops/bench joint` measures the whole stream."""
    whole = mixed()
    return replace(whole, pictures=whole.pictures[::3], truth=whole.truth[::3])


@cache
def case_of(load: Callable[[], Case]) -> Case:
    return load()


@cache
def edge_answers(load: Callable[[], Case]) -> list[Prediction]:
    return answers(case_of(load).small, case_of(load))


def answers(side: Side, case: Case) -> list[Prediction]:
    predictor = open_predictor(side.card, side.model, None, side.options)
    try:
        return [predictor.predict(picture) for picture in case.pictures]
    finally:
        predictor.close()


@cache
def measured(load: Callable[[], Case]) -> Measured:
    case = case_of(load)
    edge, cloud = edge_answers(load), answers(case.big, case)
    algorithm = make(case.algorithm, case.parameters)
    hard = [algorithm(prediction).is_hard for prediction in edge]
    joint = [there if is_hard else here for here, there, is_hard in zip(edge, cloud, hard, strict=True)]
    return Measured(case.quality(edge), case.quality(cloud), case.quality(joint), sum(hard) / len(hard))


def test_on_digits_most_of_the_clouds_gain_is_kept_at_no_more_than_half_of_the_traffic() -> None:
    measurement = measured(digits)
    assert measurement.upload <= 0.5
    assert measurement.joint >= case_of(digits).aim(measurement.edge, measurement.cloud)


def test_on_digits_the_algorithm_chooses_better_than_chance() -> None:
    measurement = measured(digits)
    assert measurement.joint >= measurement.random + MARGIN


def test_the_small_model_alone_would_not_have_done() -> None:
    """Otherwise the tests above would show nothing."""
    measurement = measured(digits)
    assert measurement.edge < case_of(digits).aim(measurement.edge, measurement.cloud) - 0.05


@pytest.mark.slow
@pytest.mark.exhaustive  # the digits above, and that it is blind without the candidates, below
def test_on_the_mixed_stream_the_faces_are_counted_right_at_little_more_than_half_of_the_traffic() -> None:
    measurement = measured(third_of_mixed)
    assert measurement.upload <= 0.55
    assert measurement.joint >= 0.95
    assert measurement.edge <= 0.6


@pytest.mark.slow
def test_without_the_candidates_below_the_threshold_the_same_algorithm_is_blind() -> None:
    """What is mined are the boxes that were nearly results: of results alone it finds few of the hard ones."""
    case = case_of(third_of_mixed)
    algorithm = make(case.algorithm, case.parameters)
    seen = [
        algorithm(Prediction(boxes=prediction.boxes, candidates=prediction.boxes)).is_hard
        for prediction in edge_answers(third_of_mixed)
    ]
    assert sum(seen) / len(seen) <= 0.2


@pytest.mark.exhaustive
@pytest.mark.slow
def test_the_measurement_through_a_slow_line_shows_all_ways_and_what_they_are_to_reach() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ops.benchmarks", "joint", "--set", "digits", "--pictures", "150"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for way in ("edge only", "cloud only", "joint", "random, as many"):
        assert re.search(rf"^{way} +\d+\.\d% +\d+\.\d%", done.stdout, re.MULTILINE), done.stdout
    assert re.search(r"^uploaded +\d+\.\d% +<= 50%$", done.stdout, re.MULTILINE), done.stdout
