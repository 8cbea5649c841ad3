"""Several jobs side by side."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.conversion.model import Artifact, JobRecord, submitted
from app.conversion.options import HostQuantization, Options
from app.conversion.pages.compare import candidates, compare_url, lines, picture_pairs
from app.conversion.service.answers import Answer, AnsweredPicture, Answers
from app.conversion.service.comparison import JobsComparison, comparison_of
from app.conversion.service.quality.views import (
    Boundary,
    FloatInt8Pair,
    LayerQuality,
    OutputQuality,
    Quality,
    Spread,
    WorstSample,
)
from app.kit.web.templates import environment


def job(name: str, *, model: str = "m", method: str = "minmax") -> JobRecord:
    return submitted(
        name,
        now="2026-11-20T20:00:00.000Z",
        owner="local",
        name=name,
        tags=(),
        options=Options(quantization=HostQuantization(method=method)),  # type: ignore[arg-type]
        inputs={"model.onnx": Artifact("k", 1, model), "quant.zip": Artifact("q", 1, "i")},
        intake={},
    )


def measured(snr_db: float, size: float = 100.0) -> Quality:
    step = Boundary("quantise", "a", "b", "measured", outputs=(OutputQuality("y", Spread(mean=snr_db), Spread()),))
    end = Boundary("compile", "b", "c", "bit_true")
    layer = LayerQuality(1, "n1", "Conv", True, "", Spread(mean=snr_db), Spread(), None, None)
    size_bytes = FloatInt8Pair(4 * size, size)
    return Quality("host", (end, step, end), layers=(layer,), size_bytes=size_bytes)


def judged(record: JobRecord, snr_db: float) -> JobRecord:
    stages = {**record.stages, "bie": replace(record.stages["bie"], summary={"snr_db": snr_db})}
    return replace(record, stages=stages)


def three(**changes: str) -> JobsComparison:
    """The last has a verdict on pictures that set no range, which is lower than what all pictures give."""
    third = judged(job("third", method="percentile", **changes), 18.5)
    jobs = [judged(job("first"), 16.0), judged(job("=second", method="entropy"), 30.0), third]
    return comparison_of(jobs, [measured(16.0), measured(30.0), measured(20.0, 90.0)])


def test_jobs_of_one_model_are_compared_in_everything() -> None:
    comparison = three()
    assert comparison.is_same_model and comparison.is_same_pictures
    assert [(row.name, row.values) for row in comparison.options] == [
        ("quantization.method", ("minmax", "entropy", "percentile"))
    ]
    assert [(row.name, row.snr_db, row.worst_db) for row in comparison.outputs] == [("y", (16.0, 30.0, 20.0), 16.0)]
    assert [pair.change_db for pair in comparison.layers] == [4.0]


def test_of_different_models_options_outputs_and_layers_are_withheld() -> None:
    comparison = three(model="another")
    assert not comparison.is_same_model and comparison.is_same_pictures
    assert comparison.options == () and comparison.outputs == () and comparison.layers == ()
    assert len(comparison.times) == 4 and any(row.differs for row in comparison.facts)


def test_each_job_is_a_point_of_the_plots_by_the_snr_of_its_verdict() -> None:
    points = candidates(three(), "abc")
    assert [(one.id, one.name, one.snr_db, one.size_bytes) for one in points] == [
        (0, "A first", 16.0, 100),
        (1, "B =second", 30.0, 100),
        (2, "C third", 18.5, 90),
    ]


def test_pictures_are_paired_by_name_whatever_their_places() -> None:
    def answered(place: int) -> AnsweredPicture:
        return AnsweredPicture(place, 10, 10, Answer(), Answer())

    def asked(*names: str) -> Quality:
        worst = tuple(WorstSample(place, name, 5.0) for place, name in enumerate(names))
        return replace(measured(16.0), worst_samples=worst)

    comparison = comparison_of([job("a"), job("b")], [asked("x", "y", "z"), asked("y", "x")])
    first = Answers("", "yunet", is_sure=True, pictures=(answered(0), answered(1), answered(2)))
    second = Answers("", "yunet", is_sure=True, pictures=(answered(0), answered(1)))
    pairs = picture_pairs(comparison, first, second)
    assert [(pair.name, pair.a.place, pair.b.place) for pair in pairs] == [("x", 0, 1), ("y", 1, 0)]


def test_the_address_names_all_jobs_by_letters() -> None:
    assert compare_url(["x", "y", "z"]) == "/ui/jobs/compare?a=x&b=y&c=z"


def test_the_csv_has_a_column_for_each_job() -> None:
    table = [list(line) for line in lines(three())]
    assert table[0] == ["section", "name", "first", "=second", "third"]
    assert ["option", "quantization.method", "minmax", "entropy", "percentile"] in table
    assert ["output", "y", 16.0, 30.0, 20.0] in table
    assert not any(line[0] == "layer" for line in table)
    pair = replace(three(), jobs=three().jobs[:2], qualities=three().qualities[:2])
    assert [line for line in lines(pair) if line[0] == "layer"] == [["layer", "n1", 16.0, 20.0]]


@pytest.mark.parametrize(("option", "word"), [("", "none"), (None, "not used"), ("snr>=20", "snr&gt;=20")])
def test_an_option_that_is_empty_is_none_and_one_that_a_job_does_not_have_is_not_used(
    option: str | None, word: str
) -> None:
    template = environment("en").from_string(
        '{% from "conversion/_compared_value.html" import value %}{{ value("option", option) }}'
    )
    assert f">{word}</" in template.render(option=option)
