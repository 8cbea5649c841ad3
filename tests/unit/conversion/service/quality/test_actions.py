"""What is advised about a conversion: the right things, in the right order, with their price."""

from __future__ import annotations

from typing import Any

import pytest

from app.conversion.options import Chip, HostQuantization, Options, ToolchainName
from app.conversion.service.quality.actions import MESSAGES, Action, Evidence, candidate_actions, next_actions
from app.conversion.service.quality.candidates import Candidate, goal_patch, pareto, read_search
from app.conversion.service.reconversion import patch_options

KNERON = Options(toolchain=ToolchainName.KNERON, platform=Chip.KL720)


def candidate(
    number: int, snr_db: float, size_bytes: int = 1000, latency_ms: float = 3.0, **more: Any
) -> dict[str, Any]:
    row = {"id": number, "name": f"plan {number}", "snr_db": snr_db, "size_bytes": size_bytes, "latency_ms": latency_ms}
    return {**row, "is_measured": True, "steps": [{"kind": "int16", "tensors": ["a"]}], **more}


def report(*candidates: dict[str, Any], **more: Any) -> dict[str, Any]:
    failed = {"passed": False, "nothing_quantized": False, "snr_db": 12.0}
    return {"verdict": failed, "search": {"candidates": list(candidates), "taken": 0}, **more}


def advised(bie: dict[str, Any], options: Options | None = None, **more: Any) -> list[Action]:
    return list(next_actions(Evidence(options or Options(), bie, **more)))


def test_what_reaches_the_rule_comes_first_and_the_cheapest_of_it() -> None:
    rows = [
        candidate(0, 12.0, is_taken=True),
        candidate(1, 21.0, 1900, 3.9),
        candidate(2, 20.5, 1200, 3.2),
        candidate(3, 16.0, 1100, 3.1),
    ]
    actions = [action for action in advised(report(*rows)) if action.code == "candidate"]
    assert [action.params["id"] for action in actions] == [2, 1, 3]
    first = actions[0]
    assert (first.gain_db, first.size_delta_bytes, first.is_measured) == (8.5, 200, True)
    assert first.latency_delta_ms == pytest.approx(0.2)
    assert first.text == "Use plan 2: 20.5 dB."


def test_a_gain_within_the_noise_is_no_advice() -> None:
    assert not advised(report(candidate(0, 12.0, is_taken=True), candidate(1, 12.4)))


def test_a_gain_that_the_lowest_picture_pays_for_is_no_advice() -> None:
    taken = candidate(0, 23.8, is_taken=True, snr_min_db=17.2)
    uneven, even = candidate(1, 25.5, snr_min_db=11.2), candidate(2, 25.4, snr_min_db=16.0)
    actions = [action for action in advised(report(taken, uneven, even)) if action.code == "candidate"]
    assert [action.params["id"] for action in actions] == [2]


@pytest.mark.skipif("goal" not in HostQuantization.model_fields, reason="this version converts by knobs alone")
def test_every_patch_makes_valid_options_even_after_a_conversion_by_knobs() -> None:
    knobs = Options.model_validate({"quantization": {"method": "percentile", "percentile": 99.9}})
    rows = [candidate(0, 12.0, is_taken=True), candidate(1, 21.04)]
    bie = report(*rows, latency_ms={"float": 2.0, "int8": 3.0})
    for action in advised(bie, knobs):
        assert not action.options_patch or patch_options(knobs, action.options_patch) is not None, action.code


def test_an_action_of_the_ladder_patches_the_vendors_arguments() -> None:
    arguments = {"datapath_bitwidth_mode": "mix light", "weight_bitwidth_mode": "mix light"}
    rows = [candidate(0, 12.0, is_taken=True, options={}), candidate(1, 21.0, options=arguments)]
    action = advised(report(*rows), KNERON)[0]
    changed = patch_options(KNERON, action.options_patch)
    assert changed is not None
    assert changed.kneron.datapath_bitwidth_mode == "mix light"


def test_a_candidate_is_made_as_it_was_and_a_goal_after_it_searches_anew() -> None:
    steps = [{"kind": "range", "method": "mse", "tensors": []}, {"kind": "int16", "method": "", "tensors": ["a"]}]
    rows = [candidate(0, 12.0, is_taken=True), candidate(1, 12.1, steps=steps), candidate(2, 13.0, steps=[])]
    own = Options.model_validate({"quantization": {"method": "percentile"}})
    made, without = candidate_actions(own, read_search(report(*rows)))
    changed = patch_options(own, made.options_patch)
    assert changed is not None and not changed.quantization.goal
    assert [step.model_dump(mode="json") for step in changed.quantization.steps] == steps
    assert made.params["id"] == 1, "however little it gains"
    assert not without.options_patch, "what it was made of is not known"
    searching = patch_options(changed, goal_patch("snr>=20"))
    assert searching is not None and searching.quantization.goal == "snr>=20" and not searching.quantization.steps


def test_the_layer_that_first_misses_the_goal_is_named_with_its_pictures_and_channels_where_the_goal_is_missed() -> (
    None
):
    bad = {"tensor": "a", "layer": "conv_7", "before_db": 23.1, "snr_db": 17.4, "count": 6, "tensors": 40}
    bad |= {"pictures": ["p1.png", "p2.png"], "channels": [[3, 12.0]]}
    bie = report(candidate(0, 17.0, is_taken=True))
    bie["search"]["first_bad"] = bad
    [action] = [one for one in advised(bie) if one.code == "first_bad_channels"]
    assert action.text.startswith("Look at channels 3 (12 ×) of conv_7") and "p1.png, p2.png" in action.text
    assert not [one for one in advised({**bie, "goal": {"is_reached": True}}) if "first_bad" in one.code]
    bie["search"]["first_bad"] = {**bad, "before_drop": 0.4, "drop": 3.5}
    [action] = [one for one in advised(bie) if "first_bad" in one.code]
    assert action.text.endswith("(task loss 0.4 → 3.5 percent).")


def test_a_goal_that_is_missed_has_the_layers_that_were_measured_left_in_float() -> None:
    measured = {"pictures": ["p1.png"], "layers": [["gemm", 4.5]], "base_db": 8.2, "layers_db": 17.26, "code": "layers"}
    bie = report(candidate(0, 17.0, is_taken=True), quality={"task": {"kind": "top1"}})
    bie["search"]["shortfall"] = measured
    options = patch_options(Options(), {"quantization": {"exclude_nodes": ["tail"]}})
    [action] = [one for one in advised(bie, options) if one.code == "shortfall"]
    assert action.text.startswith("Leave gemm in float: p1.png,") and "17.3 dB then instead of 8.2" in action.text
    assert action.options_patch == {"quantization": {"exclude_nodes": ["tail", "gemm"]}}
    bie["search"]["shortfall"] = {**measured, "code": "small_outputs", "layers": []}
    [action] = [one for one in advised(bie) if one.code in ("shortfall", "small_outputs")]
    assert action.options_patch == goal_patch("drop<=1%")


def test_a_wrong_preprocessing_comes_before_everything() -> None:
    known = {
        "is_sure": True,
        "family": "yunet",
        "title": "YuNet",
        "summary": "BGR, x",
        "preprocess": {"color": "BGR", "scale": 1.0},
    }
    rows = [candidate(0, 12.0, is_taken=True), candidate(1, 21.0)]
    first = advised(report(*rows), recognition=known)[0]
    assert first.text == "Prepare the pictures as YuNet models are trained: BGR, x."
    changed = patch_options(Options(), first.options_patch)
    assert changed is not None
    assert changed.preprocess.color == "BGR"
    assert not [a for a in advised(report(*rows), changed, recognition=known) if a.code == "preprocess"]


def test_a_doubt_of_the_intake_is_passed_on() -> None:
    warning = {"code": "WRONG_SCALE", "message": "Prepared samples span 0…255; …", "detail": {}}
    assert advised(report(), warnings=[warning])[0].code == "preprocess_check"


def test_int8_that_is_slower_than_float_is_said() -> None:
    slower = advised({"latency_ms": {"float": 2.0, "int8": 3.0}})[0]
    assert (slower.code, slower.latency_delta_ms) == ("fastest", -1.0)
    assert not advised({"latency_ms": {"float": 3.0, "int8": 2.0}})
    assert not advised({"latency_ms": {"float": 0.017, "int8": 0.022}}), "no machine tells these apart"


def test_few_pictures_and_ruinous_ones_are_named() -> None:
    worst = [{"name": "dark.jpg", "snr_db": -0.9}, {"name": "fine.jpg", "snr_db": 19.0}]
    codes = {
        action.code: action for action in advised({"calibration": {"samples": 12}, "quality": {"worst_samples": worst}})
    }
    assert codes["more_samples"].params["count"] == 12
    assert codes["outlier_samples"].params["names"] == "dark.jpg"


@pytest.mark.parametrize(
    ("judgement", "is_few"),
    [
        ({"calibrate": 80, "report": 20}, False),
        ({"calibrate": 80, "report": 20, "is_own_set": True}, True),
        ({"calibrate": 80, "report": 80}, True),
    ],
)
def test_pictures_that_were_set_aside_count_as_given(judgement: dict[str, Any], is_few: bool) -> None:
    actions = advised({"calibration": {"samples": 80}, "judgement": judgement})
    assert any(action.code == "more_samples" for action in actions) == is_few


def test_weights_that_leave_no_room_are_named() -> None:
    layers = [{"name": "conv_1", "weight_snr_db": 17.0}, {"name": "conv_2", "weight_snr_db": 40.0}]
    bie = {"verdict": {"passed": False}, "quality": {"layers": layers}}
    assert [a.params["layers"] for a in advised(bie) if a.code == "weights"] == ["conv_1"]
    assert not advised({**bie, "verdict": {"passed": True}})


def test_every_message_has_its_numbers() -> None:
    assert set(MESSAGES) >= {"preprocess", "candidate", "goal", "fastest", "more_samples"}
    with pytest.raises(KeyError):
        _ = Action("candidate").text


def test_the_front_is_what_nothing_beats() -> None:
    search = read_search(report(candidate(0, 12, 1000, 3), candidate(1, 21, 1200, 3), candidate(2, 20, 1300, 4)))
    assert search is not None
    assert [each.id for each in pareto(search.candidates)] == [0, 1]


def test_a_search_of_another_version_is_read_as_far_as_it_goes() -> None:
    search = read_search({"search": {"candidates": [{"id": 7, "name": "x", "colour": "red"}]}})
    assert search is not None
    assert search.candidates == (Candidate(7, "x"),)
    assert read_search({}) is None


def test_a_loss_of_the_task_behind_a_good_snr_makes_it_the_next_goal() -> None:
    passed = {"passed": True, "nothing_quantized": False, "snr_db": 22.3}
    task = {"kind": "top1", "n": 16, "float_agreement": 0.75}
    rows = [candidate(0, 22.3, is_taken=True), candidate(1, 24.0)]
    bie = report(*rows, verdict=passed, quality={"task": task})
    first, *_ = advised(bie)
    assert first.text == "Let the conversion search for drop<=1%: the SNR is good, but the task loses 25.0 percent."
    changed = patch_options(Options(), first.options_patch)
    assert changed is not None and changed.quantization.goal == "drop<=1%"
    assert "task" not in {one.code for one in advised({**bie, "quality": {"task": {**task, "float_agreement": 1.0}}})}
