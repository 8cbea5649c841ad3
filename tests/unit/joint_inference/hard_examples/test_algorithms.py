"""Hard-example algorithms: the published formulas, their guards, their parameters, and those from elsewhere."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from importlib.metadata import EntryPoint
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.inference.prediction import Box, Prediction
from app.joint_inference.hard_examples import (
    BadParameter,
    UnknownAlgorithm,
    Verdict,
    load_algorithms,
    make,
    needs_prediction,
    registry,
)

SHARES = st.floats(0, 1)


def seen(*scores: float) -> Prediction:
    """A detector's candidates; its results are empty, to which no algorithm looks."""
    return Prediction(candidates=tuple(Box(0, 0, 9, 9, score) for score in scores))


def classes(*probabilities: float) -> Prediction:
    return Prediction(probabilities=probabilities)


def is_hard(name: str, prediction: Prediction, **parameters: str) -> bool:
    return make(name, parameters)(prediction).is_hard


@pytest.mark.parametrize(
    ("img", "box", "scores", "hard"),
    [
        (".5", ".5", (0.4, 0.6), True),
        (".5", ".5", (0.6, 0.7), False),
        (".5", ".5", (0.5, 0.9), True),
        (".9", ".9", (0.95, 0.95, 0.9), True),
        (".9", ".9", (0.95, 0.95, 0.95), False),
        (".7", ".5", (*[0.4] * 3, *[0.9] * 7), True),
        (".7", ".5", (*[0.4] * 2, *[0.9] * 8), False),
        ("0", ".5", (0.4, 0.6), False),
        ("0", ".5", (0.4, 0.5), True),
        ("1", ".1", (0.9,), True),
        (".5", ".5", (0.4, 1.5), False),
        (".5", ".5", (0.4, -0.1), False),
        (".5", ".5", (0.4, math.nan), False),
    ],
)
def test_ibt_counts_the_weak_boxes(img: str, box: str, scores: tuple[float, ...], hard: bool) -> None:
    assert is_hard("IBT", seen(*scores), threshold_img=img, threshold_box=box) is hard


@pytest.mark.parametrize(
    ("threshold", "scores", "hard"),
    [("0.5", (0.4, 0.6), False), ("0.5", (0.4, 0.5), True), ("0.5", (0.2, 0.2, 2.0), False), ("1", (1.0,), False)],
)
def test_threshold_compares_the_mean(threshold: str, scores: tuple[float, ...], hard: bool) -> None:
    assert is_hard("Threshold", seen(*scores), threshold=threshold) is hard


@pytest.mark.parametrize(
    ("threshold", "probabilities", "hard"),
    [
        ("0.5", (0.25, 0.25, 0.25, 0.25), True),
        ("0.5", (1.0, 0.0, 0.0, 0.0), False),
        ("0.5", (0.5, 0.5, 0.0, 0.0), False),
        ("0.51", (0.5, 0.5, 0.0, 0.0), True),
        ("1", (1.0,), False),
        ("0.5", (1.5, -0.5), False),
        ("0.5", (math.nan, 0.5), False),
    ],
)
def test_cross_entropy_measures_certainty(threshold: str, probabilities: tuple[float, ...], hard: bool) -> None:
    assert is_hard("CrossEntropy", classes(*probabilities), threshold_cross_entropy=threshold) is hard


def test_cross_entropy_takes_each_candidate_of_a_detector_as_two_classes() -> None:
    assert is_hard("CrossEntropy", seen(0.5, 0.5))
    assert not is_hard("CrossEntropy", seen(0.99, 0.99))


@pytest.mark.parametrize(("name", "default"), [("IBT", True), ("Threshold", True), ("CrossEntropy", False)])
def test_a_picture_in_which_nothing_is_seen_is_what_empty_is_hard_says(name: str, default: bool) -> None:
    assert is_hard(name, Prediction()) is default
    assert is_hard(name, Prediction(), empty_is_hard="TRUE")
    assert not is_hard(name, Prediction(), empty_is_hard="0")


@pytest.mark.parametrize("name", ["IBT", "Threshold"])
def test_under_a_budget_a_weak_box_goes_before_an_empty_picture(name: str) -> None:
    algorithm = make(name, {})
    assert algorithm(seen(0.21)).score > algorithm(Prediction()).score


@pytest.mark.parametrize("name", ["IBT", "Threshold"])
def test_a_classifier_counts_as_one_box_of_its_best_class(name: str) -> None:
    assert is_hard(name, classes(0.4, 0.3, 0.3))
    assert not is_hard(name, classes(0.8, 0.1, 0.1))


def test_random_draws_the_same_samples_from_the_same_seed() -> None:
    one, two, other = (make_random(seed) for seed in ("7", "7", "8"))
    first = [one(Prediction()).is_hard for _ in range(400)]
    assert first == [two(Prediction()).is_hard for _ in range(400)]
    assert first != [other(Prediction()).is_hard for _ in range(400)]
    assert 0.2 < sum(first) / 400 < 0.4


def make_random(seed: str) -> Any:
    return make("Random", {"random_ratio": "0.3", "seed": seed})


def test_the_extremes_take_all_or_nothing() -> None:
    assert is_hard("CloudOnly", Prediction())
    assert not is_hard("EdgeOnly", seen(0.1))
    assert not any(is_hard("Random", Prediction(), random_ratio="0") for _ in range(50))
    assert all(is_hard("Random", Prediction(), random_ratio="1") for _ in range(50))


@pytest.mark.slow
@given(scores=st.lists(SHARES, min_size=1, max_size=30), img=SHARES, box=SHARES, less=SHARES)
def test_a_weaker_box_never_makes_an_ibt_sample_easier(
    scores: list[float], img: float, box: float, less: float
) -> None:
    algorithm = make("IBT", {"threshold_img": repr(img), "threshold_box": repr(box)})
    before, after = algorithm(seen(*scores)), algorithm(seen(scores[0] * less, *scores[1:]))
    assert after.is_hard >= before.is_hard
    assert after.score >= before.score


@pytest.mark.slow
@given(
    weights=st.lists(st.floats(0, 1e6), min_size=1, max_size=30).filter(lambda distribution: sum(distribution) > 0),
    least=SHARES,
)
def test_cross_entropy_has_an_answer_for_every_distribution(weights: list[float], least: float) -> None:
    probabilities = [weight / sum(weights) for weight in weights]
    verdict = make("CrossEntropy", {"threshold_cross_entropy": repr(least)})(classes(*probabilities))
    assert 0 <= verdict.score <= 1
    assert verdict.is_hard == (1 - verdict.score < least - 1e-9) or abs(1 - verdict.score - least) < 1e-6


@pytest.mark.slow
@given(values=st.lists(st.floats(), max_size=8), name=st.sampled_from(["IBT", "Threshold", "CrossEntropy"]))
def test_no_number_that_a_model_may_give_is_an_error(values: list[float], name: str) -> None:
    for prediction in (seen(*values), classes(*values)):
        verdict = make(name, {})(prediction)
        assert math.isfinite(verdict.score)


@pytest.mark.slow
@given(scores=st.lists(st.floats(0.3, 1), min_size=1, max_size=9), box=st.floats(0, 1), img=SHARES)
def test_what_is_never_hard_really_never_is(scores: list[float], box: float, img: float) -> None:
    algorithm = make("IBT", {"threshold_box": repr(box), "threshold_img": repr(img)})
    if algorithm.never(candidate_threshold=0.3) and box < 0.3:
        assert not algorithm(seen(*scores)).is_hard


@pytest.mark.parametrize(
    ("name", "parameters", "is_never"),
    [
        ("IBT", {"threshold_box": "0.2"}, True),
        ("IBT", {"threshold_box": "0.21"}, False),
        ("IBT", {}, False),
        ("IBT", {"threshold_box": "0.1", "threshold_img": "1"}, False),
        ("Threshold", {"threshold": "0.2"}, True),
        ("Threshold", {}, False),
        ("CrossEntropy", {"threshold_cross_entropy": "0"}, True),
        ("CrossEntropy", {}, False),
        ("Random", {"random_ratio": "0"}, True),
        ("Random", {}, False),
        ("CloudOnly", {}, False),
        ("EdgeOnly", {}, False),
    ],
)
def test_thresholds_that_can_never_be_met_are_said(name: str, parameters: dict[str, str], is_never: bool) -> None:
    assert bool(make(name, parameters).never(candidate_threshold=0.2)) is is_never


def test_empty_pictures_that_stay_hard_are_named_beside_it() -> None:
    remark = make("IBT", {"threshold_box": "0.1"}).never(candidate_threshold=0.2)
    assert "0.1" in remark
    assert "nothing is seen" in remark
    assert "nothing is seen" not in make("IBT", {"threshold_box": "0.1", "empty_is_hard": "no"}).never(
        candidate_threshold=0.2
    )


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("IBT", "threshold_img", "high"),
        ("IBT", "threshold_box", "1.5"),
        ("IBT", "empty_is_hard", "maybe"),
        ("Threshold", "threshold", "nan"),
        ("Threshold", "threshold", "-0.1"),
        ("Random", "random_ratio", "30%"),
        ("Random", "seed", "1.5"),
        ("Random", "seed", "-3"),
        ("CrossEntropy", "threshold_cross_entropy", "inf"),
    ],
)
def test_a_parameter_that_is_none_is_refused_by_its_name(name: str, key: str, value: str) -> None:
    with pytest.raises(BadParameter) as refused:
        make(name, {key: value})
    assert refused.value.detail == {"key": key}
    assert key in refused.value.message


def test_a_parameter_of_a_program_that_is_no_text_is_refused_by_its_name() -> None:
    with pytest.raises(BadParameter, match=r"Parameter threshold must be a text, not '0\.5'") as refused:
        make("Threshold", {"threshold": 0.5})  # type: ignore[dict-item]  # what is refused
    assert refused.value.detail == {"key": "threshold"}


def test_parameters_of_others_are_passed_over_and_empty_ones_are_defaults() -> None:
    assert is_hard("IBT", seen(0.4, 0.6), nms_threshold="x", threshold_box="", threshold_img=" .5 ")


def test_an_unknown_algorithm_is_told_what_there_is() -> None:
    with pytest.raises(UnknownAlgorithm) as refused:
        make("IBTT", {})
    assert "IBTT" in refused.value.message
    assert "CrossEntropy" in refused.value.hint


def test_the_reserved_one_is_said_to_be_for_texts() -> None:
    with pytest.raises(UnknownAlgorithm, match="texts"):
        make("BertRouter", {})


def test_only_those_that_do_not_look_can_decide_before() -> None:
    blind = {name for name in load_algorithms() if not needs_prediction(make(name, {}))}
    assert blind == {"Random", "CloudOnly", "EdgeOnly"}
    assert {name for name, entry in load_algorithms().items() if not entry.needs_prediction} == blind


def test_each_known_algorithm_describes_parameters_that_it_really_takes() -> None:
    for name, entry in load_algorithms().items():
        assert entry.description
        make(name, {parameter.key: parameter.default for parameter in entry.parameters})
        for parameter in entry.parameters:
            with pytest.raises(BadParameter):
                make(name, {parameter.key: "?"})


class Own:
    name = "Own"
    description = "one's own"

    def __init__(self, parameters: Mapping[str, str]) -> None:
        self.least = float(parameters["least"])

    def __call__(self, prediction: Prediction) -> Verdict:
        return Verdict(len(prediction.candidates) < self.least, 1.0)

    def never(self, *, candidate_threshold: float) -> str:
        return ""


NOT_CALLABLE = 3


@pytest.fixture
def with_entry_points(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    points = [
        EntryPoint("Own", f"{__name__}:Own", registry.GROUP),
        EntryPoint("Gone", "no.such:thing", registry.GROUP),
        EntryPoint("Three", f"{__name__}:NOT_CALLABLE", registry.GROUP),
        EntryPoint("IBT", f"{__name__}:Own", registry.GROUP),
    ]
    monkeypatch.setattr(registry, "entry_points", lambda group: points if group == registry.GROUP else [])
    load_algorithms.cache_clear()
    yield
    load_algorithms.cache_clear()


@pytest.mark.usefixtures("with_entry_points")
def test_ones_own_algorithm_comes_by_an_entry_point() -> None:
    assert is_hard("Own", seen(0.9), least="2")
    assert load_algorithms()["Own"].description == "one's own"
    assert load_algorithms()["IBT"].algorithm is registry.BUNDLED["IBT"], "a bundled name is not taken over"


@pytest.mark.usefixtures("with_entry_points")
def test_one_that_does_not_load_is_said_and_harms_no_other() -> None:
    assert "no.such" in load_algorithms()["Gone"].origin
    assert "ModuleNotFoundError" in load_algorithms()["Gone"].problem
    for name in ("Gone", "Three"):
        with pytest.raises(UnknownAlgorithm, match="cannot be loaded"):
            make(name, {})
    assert is_hard("IBT", seen(0.4))


@pytest.mark.usefixtures("with_entry_points")
def test_whatever_ones_own_algorithm_raises_of_its_parameters_is_a_bad_parameter() -> None:
    with pytest.raises(BadParameter, match="KeyError"):
        make("Own", {})
