"""Presets, and the form whose fields they fill."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from app.conversion import presets
from app.conversion.options import Chip, KneronOptions, Options, ToolchainName, bitwidth_problem
from app.conversion.pages import new_form
from app.conversion.pages.new_view import formula
from app.conversion.pages.option_fields import list_advanced_fields
from app.inference.preprocess_options import read_preprocess

HOST = Options()
KL720 = Options(toolchain=ToolchainName.KNERON, platform=Chip.KL720)


@pytest.mark.parametrize("chip", list(Chip))
def test_every_preset_a_chip_is_offered_is_one_it_can_do(chip: Chip) -> None:
    for preset in presets.quantization_presets(ToolchainName.KNERON, chip).values():
        assert bitwidth_problem(chip, KneronOptions.model_validate(preset)) == ""


def test_kl520_is_offered_the_fast_preset_only() -> None:
    assert list(presets.quantization_presets(ToolchainName.KNERON, Chip.KL520)) == [presets.FAST]


def test_the_defaults_are_the_first_presets() -> None:
    values = new_form.values_of(HOST)
    assert (values["preset"], values["pre"]) == ("goal", "unit")


@pytest.mark.parametrize("name", presets.PREPROCESS)
def test_a_preprocess_preset_survives_the_form(name: str) -> None:
    options = Options(preprocess=read_preprocess(presets.PREPROCESS[name]))
    values = new_form.values_of(options)
    assert values["pre"] == name
    assert new_form.options_of(values) == (options, {})


@pytest.mark.parametrize("options", [HOST, KL720, Options(quantization={"exclude_nodes": ("a", "b/c")})])  # type: ignore[arg-type]
def test_options_survive_the_form(options: Options) -> None:
    assert new_form.options_of(new_form.values_of(options)) == (options, {})


def test_choosing_a_preset_fills_its_values_and_leaves_the_others() -> None:
    values = {**new_form.values_of(KL720), "preset": "accurate", "kneron.model_id": "40000"}
    settled = new_form.settle(values)
    assert (settled["kneron.datapath_bitwidth_mode"], settled["kneron.model_id"]) == ("int16", "40000")
    assert settled["preset_was"] == "accurate"


def test_changing_a_value_of_a_preset_makes_it_custom() -> None:
    values = {**new_form.values_of(HOST), "quantization.method": "percentile", "quantization.percentile": "99"}
    assert new_form.settle(values)["preset"] == presets.CUSTOM


def test_custom_stays_custom_until_a_preset_is_chosen() -> None:
    values = new_form.settle({**new_form.values_of(HOST), "pre": "custom"})
    assert values["pre"] == "custom"
    again = new_form.settle({**values, "pre": "imagenet"})
    assert again["preprocess.mean"] == "0.485, 0.456, 0.406"


def test_a_chip_without_the_chosen_preset_falls_back_to_the_first() -> None:
    values = new_form.settle({**new_form.values_of(KL720), "preset": "accurate"})
    settled = new_form.settle({**values, "platform": "520"})
    assert (settled["preset"], settled["kneron.datapath_bitwidth_mode"]) == ("fast", "int8")


def test_what_is_no_number_is_said_beside_its_field() -> None:
    values = {**new_form.values_of(HOST), "preprocess.mean": "0.5, x", "preprocess.std": "0"}
    options, problems = new_form.options_of(values)
    assert options is None
    assert problems["preprocess.mean"].text == "This must be a number."
    assert problems["preprocess.std"].text % problems["preprocess.std"].detail == "This must be greater than 0."


def test_a_quotient_is_a_number() -> None:
    options, _ = new_form.options_of({**new_form.values_of(HOST), "preprocess.scale": "1/127.5"})
    assert options is not None
    assert options.preprocess.scale == pytest.approx(1 / 127.5)


@pytest.mark.parametrize("text", ["1/0", "1e999", "nan", "", "1/1e999999999", "９/0"])
def test_no_text_for_a_number_makes_an_exception(text: str) -> None:
    _, problems = new_form.options_of({**new_form.values_of(HOST), "preprocess.scale": text})
    assert set(problems) == {"preprocess.scale"}


def test_kneron_asks_for_its_chip() -> None:
    _, problems = new_form.options_of({**new_form.values_of(HOST), "toolchain": "kneron"})
    assert set(problems) == {"platform"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"toolchain": "kneron"}, "needs a platform: 520, 720, 530, 630 or 730"),
        ({"toolchain": "host", "platform": "520"}, "platform is for toolchain kneron"),
        (
            {"toolchain": "kneron", "platform": "720", "kneron": {"int16_nodes": ["a"]}},
            "int16_nodes is for chip 730 only",
        ),
        (
            {"toolchain": "kneron", "platform": "720", "quantization": {"report_images": "pictures"}},
            "report_images are for toolchain host",
        ),
    ],
)
def test_what_a_toolchain_does_not_have_is_named(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        Options.model_validate(options)


def test_shapes_are_taken_when_every_axis_is_given() -> None:
    inputs = [{"name": "x", "shape": [None, 3, "h", "w"]}, {"name": "y", "shape": ["..."]}]
    fields = {"shape.0.0": "1", "shape.0.2": "240", "shape.0.3": "320", "shape.1": "1x10"}
    shapes = new_form.shapes_of(fields, inputs)
    assert shapes == {"x": (1, 3, 240, 320), "y": (1, 10)}
    assert new_form.shapes_of(new_form.shape_values(shapes, inputs), inputs) == shapes
    assert new_form.shapes_of({**fields, "shape.0.3": ""}, inputs) == {"y": (1, 10)}


def test_every_option_has_a_control() -> None:
    shown = {field.name for options in (HOST, KL720) for field in list_advanced_fields(new_form.values_of(options))}
    needed = {name for name in new_form.OPTION_FIELDS if not name.startswith("preprocess.")}
    assert shown == needed


def test_controls_offer_only_what_the_chip_can_do() -> None:
    values = {**new_form.values_of(KL720), "platform": "520"}
    widths = {field.choices for field in list_advanced_fields(values) if field.name.endswith("bitwidth_mode")}
    assert widths == {("int8",)}


@pytest.mark.parametrize(
    ("name", "expression", "low", "high"),
    [
        ("unit", "x = pixel / 255", "0", "1"),
        ("signed", "x = pixel / 127.5 − 1", "-1", "1"),
        ("imagenet", "x = (pixel / 255 − mean) / std", "-2.12", "2.64"),
        ("shift127", "x = (pixel − 127) / 128", "-0.992", "1"),
        ("bytes_bgr", "x = pixel", "0", "255"),
    ],
)
def test_the_formula_is_told_in_one_line(name: str, expression: str, low: str, high: str) -> None:
    told = formula(read_preprocess(presets.PREPROCESS[name]))
    assert (told.expression, told.low, told.high) == (expression, low, high)
