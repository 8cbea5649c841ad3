"""The vendor's ladder: which rungs a chip has, which is chosen, and what is reported of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from app.conversion.goals import parse_goal
from app.conversion.options import Chip, KneronOptions, bitwidth_problem
from app.conversion.toolchains.base import Progress
from app.conversion.toolchains.kneron import arguments
from app.conversion.toolchains.kneron.ladder import Rung, Tried, chosen, goal_report, rungs
from app.conversion.toolchains.kneron.ladder_search import LadderResult, Quantized, search_ladder
from app.kit.errors import ModelmillError
from app.kit.sandbox.errors import StageFailed

GOAL = parse_goal("snr>=20")


def names(chip: Chip) -> list[str]:
    return [rung.name for rung in rungs(chip, KneronOptions())]


def test_a_chip_of_eight_bits_varies_its_ranges_alone() -> None:
    assert names(Chip.KL520) == ["int8", "int8, mmse", "int8, mmse, outlier factor 2"]
    bits = {rung.options.datapath_bitwidth_mode for rung in rungs(Chip.KL520, KneronOptions())}
    assert bits == {"int8"}


@pytest.mark.parametrize("chip", [Chip.KL720, Chip.KL530, Chip.KL630, Chip.KL730])
def test_the_others_go_up_to_sixteen_bits_by_pairs_that_the_vendor_allows(chip: Chip) -> None:
    ladder = rungs(chip, KneronOptions())
    assert (ladder[0].name, ladder[-1].name) == ("int8", "int16")
    assert all(rung.options.mode >= 2 for rung in ladder), "an SNR is reported from mode 2 on"
    mixed = [rung for rung in ladder if rung.options.datapath_bitwidth_mode == "mixbw"]
    assert [rung.options.flops_ratio for rung in mixed] == [0.2, 0.5]


def test_the_users_own_arguments_stay_where_a_rung_says_nothing() -> None:
    ladder = rungs(Chip.KL720, KneronOptions(percentage=1.0, optimize=2, mode=3))
    assert all((rung.options.percentage, rung.options.optimize, rung.options.mode) == (1.0, 2, 3) for rung in ladder)


def test_a_report_without_an_snr_ends_the_climb_and_says_so() -> None:
    rung = rungs(Chip.KL720, KneronOptions())[0]
    tried = [Tried(rung, snr_db=None, fps=100.0)]
    assert goal_report(GOAL, tried, 60)["reason_code"] == "snr_not_reported"
    assert chosen(GOAL, tried) is tried[0]


def test_an_empty_ladder_of_failures_has_nothing_to_take() -> None:
    rung = rungs(Chip.KL520, KneronOptions())[0]
    assert chosen(GOAL, [Tried(rung, failure="no")]) is None

    def fail(*_: object) -> Any:
        raise StageFailed("no")

    with pytest.raises(ModelmillError, match="no") as failure:
        search_ladder([rung], GOAL, 60, fail, lambda fraction, text: None)
    assert failure.value.code == StageFailed.code  # which stages of video jobs have, too


def test_a_process_that_continues_repeats_no_rung_neither_a_failed_one_nor_the_best(tmp_path: Path) -> None:
    ladder, runs = rungs(Chip.KL520, KneronOptions()), list[str]()
    snr_db = {"int8, mmse": 13.0, "int8, mmse, outlier factor 2": 12.0}

    def quantize(rung: Rung, number: int, progress: Progress) -> Quantized:
        runs.append(rung.name)
        if len(runs) == 3:
            raise KeyboardInterrupt
        if rung.name not in snr_db:
            raise StageFailed("no", hint="Use another chip.")
        (bie := tmp_path / str(number) / "rung.bie").parent.mkdir(exist_ok=True)
        bie.write_text(rung.name)
        return Quantized({"warnings": []}, {"snr_db": snr_db[rung.name]}, bie, len(rung.name))

    def climb() -> LadderResult:
        kept_in = tmp_path / "search.jsonl", "work"
        return search_ladder(ladder, GOAL, 60, quantize, lambda fraction, text: None, kept_in)

    with pytest.raises(KeyboardInterrupt):
        climb()
    for _ in range(2):
        result = climb()
        assert runs == ["int8", "int8, mmse", *["int8, mmse, outlier factor 2"] * 2]
        rows = result.report["search"]["candidates"]
        assert [row["verdict_code"] for row in rows] == ["failed", "taken", "below_goal"]
        assert rows[0]["failure"] == "no" and rows[1]["size_bytes"] == len("int8, mmse")
        assert result.quantized.bie.read_text() == "int8, mmse"


def test_a_rung_that_ends_its_process_twice_has_failed(tmp_path: Path) -> None:
    def end(*_: object) -> Any:
        raise KeyboardInterrupt

    def climb() -> LadderResult:
        rung = rungs(Chip.KL520, KneronOptions())[0]
        return search_ladder([rung], GOAL, 60, end, lambda fraction, text: None, (tmp_path / "search.jsonl", "work"))

    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            climb()
    with pytest.raises(ModelmillError, match="ended the process each time") as failure:
        climb()
    assert failure.value.code == StageFailed.code


def test_a_goal_that_is_none_is_refused() -> None:
    with pytest.raises(ValidationError, match="is not a goal"):
        KneronOptions(goal="better")


def test_nodes_of_sixteen_bits_are_the_newest_chips_own() -> None:
    chosen = arguments.analysis(KneronOptions(int16_nodes=("conv_3",), const_in_bitwidth_mode="int8"), 2)
    assert chosen["quan_config"] == {"conv_3": {"bitwidth": {"all": 15}}}
    assert chosen["const_in_bitwidth_mode"] == "int8"
    assert not {"quan_config", "const_in_bitwidth_mode"} & arguments.analysis(KneronOptions(), 2).keys()
    assert bitwidth_problem(Chip.KL720, KneronOptions(int16_nodes=("conv_3",))) == "int16_nodes is for chip 730 only"
    assert bitwidth_problem(Chip.KL730, KneronOptions(int16_nodes=("conv_3",))) == ""
    assert "const_in" in bitwidth_problem(Chip.KL520, KneronOptions(const_in_bitwidth_mode="int16"))
