"""Goals and budgets as people write them."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from app.conversion.goals import Goal, find_hidden_loss, parse_budget, parse_goal
from app.conversion.options import Chip, HostQuantization, Options, ToolchainName


@pytest.mark.parametrize(
    ("text", "goal"),
    [
        ("snr>=20", Goal("snr>=20", "snr", 20.0)),
        (" SNR >= 22.5 dB ", Goal("snr>=22.5db", "snr", 22.5)),
        ("snr≥20", Goal("snr>=20", "snr", 20.0)),
        ("drop<=1%", Goal("drop<=1%", "drop", 1.0)),
        ("Fastest", Goal("fastest", "fastest")),
        ("smallest", Goal("smallest", "smallest")),
    ],
)
def test_a_goal_is_read_however_it_is_spaced(text: str, goal: Goal) -> None:
    assert parse_goal(text) == goal


@pytest.mark.parametrize("text", ["", "20", "snr>20", "snr>=", "drop<=1", "drop<=-1%", "best", "snr>=1e3"])
def test_what_is_no_goal_is_refused_with_the_forms_there_are(text: str) -> None:
    with pytest.raises(ValueError, match="snr>=20"):
        parse_goal(text)


@pytest.mark.parametrize("text", ["snr>=0", "snr>=91", "drop<=0%", "drop<=101%"])
def test_a_number_that_cannot_be_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="cannot be"):
        parse_goal(text)


@pytest.mark.parametrize(("text", "seconds"), [("90", 90), ("90s", 90), ("1.5 m", 90), ("10min", 600), ("1h", 3600)])
def test_a_budget_is_a_length_of_time(text: str, seconds: float) -> None:
    assert parse_budget(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "-1m", "10 days"])
def test_what_is_no_length_of_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="90s, 10m or 1h"):
        parse_budget(text)


def test_a_goal_and_what_it_decides_are_not_given_together() -> None:
    assert HostQuantization(goal="SNR >= 20").goal == "snr>=20"
    with pytest.raises(ValidationError, match="decides method"):
        HostQuantization(goal="snr>=20", method="entropy")
    with pytest.raises(ValidationError, match="is not a goal"):
        HostQuantization(goal="good")


@pytest.mark.parametrize(
    ("values", "method"),
    [
        ({"goal": "none"}, "best"),
        ({"goal": ""}, "best"),
        ({"per_channel": False}, "best"),
        ({"goal": "none", "method": "minmax"}, "minmax"),
        ({"method": "entropy"}, "entropy"),
        ({"method": "minmax"}, "minmax"),
        ({}, "best"),
    ],
)
def test_without_a_goal_and_a_method_the_best_of_a_few_is_made(values: dict[str, Any], method: str) -> None:
    chosen = HostQuantization.model_validate(values)
    assert chosen.method == method
    for leaves_out_defaults in (False, True):  # records leave them out
        stored = chosen.model_dump(mode="json", exclude_defaults=leaves_out_defaults)
        assert HostQuantization.model_validate(stored) == chosen


def test_a_set_to_report_on_needs_a_search() -> None:
    assert HostQuantization(report_images="report").goal == "snr>=20"
    with pytest.raises(ValidationError, match="name a goal"):
        HostQuantization(goal="none", report_images="report")


def test_a_set_to_report_on_is_refused_where_the_vendor_judges() -> None:
    quantization = HostQuantization(report_images="report")
    with pytest.raises(ValidationError, match="for toolchain host"):
        Options(toolchain=ToolchainName.KNERON, platform=Chip.KL720, quantization=quantization)


GOOD = {"verdict": {"passed": True}, "quality": {"task": {"kind": "top1", "float_agreement": 0.875}}}


@pytest.mark.parametrize(
    ("report", "lost"),
    [
        (GOOD, 12.5),
        ({**GOOD, "goal": {"kind": "snr"}}, 12.5),
        ({**GOOD, "goal": {"kind": "drop"}}, None),
        ({**GOOD, "verdict": {"passed": False}}, None),
        ({**GOOD, "quality": {"task": {"kind": "top1", "float_agreement": 0.96}}}, None),
        ({**GOOD, "quality": {"task": {"kind": "top1", "float_agreement": None}}}, None),
        ({**GOOD, "quality": {"task": None}}, None),
        ({**GOOD, "labels": []}, 12.5),
        ({**GOOD, "labels": [{"metric": "top-1", "float": 0.75, "int8": 0.5}]}, 25.0),
        ({**GOOD, "labels": [{"metric": "top-1", "float": 0.75, "int8": 0.76}]}, None),
        ({}, None),
    ],
)
def test_a_loss_of_the_task_is_hidden_where_the_snr_is_good_and_nobody_asked_for_the_task(
    report: dict[str, Any], lost: float | None
) -> None:
    assert find_hidden_loss(report) == lost
