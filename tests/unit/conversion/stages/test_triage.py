"""A crash is narrowed down to the smallest part of the model that still causes it."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from app.conversion.errors import ToolchainFailed
from app.conversion.stages.sub_graph import cut
from app.conversion.stages.triage import Part, advice_of, is_crash, smallest_failing
from app.inference.errors import InvalidModel
from app.kit.sandbox.errors import StageCrashed, StageFailed, StageTimedOut
from tests.harness.models import small

NOWHERE = Path("nowhere")


class Bench:
    """Dies over parts that hold all nodes of `culprits`; some parts cannot stand alone."""

    def __init__(self, total: int, culprits: set[int], refused: set[int] | None = None) -> None:
        self.total, self.culprits, self.refused = total, culprits, refused or set()
        self.tries = 0

    def cut(self, first: int, end: int | None) -> Part:
        if first in self.refused:
            raise InvalidModel("no input of known shape")
        end = self.total if end is None else end
        return Part(NOWHERE, NOWHERE, tuple({"name": str(n), "op_type": "Op"} for n in range(first, end)), self.total)

    def dies(self, part: Part) -> bool:
        self.tries += 1
        return self.culprits <= {int(node["name"]) for node in part.nodes}


@pytest.mark.parametrize("culprits", [{0}, {63}, {31}, {20, 40}, set(range(64))])
def test_what_is_left_begins_and_ends_with_a_culprit(culprits: set[int]) -> None:
    bench = Bench(64, culprits)
    part = smallest_failing(bench.cut, bench.dies)
    assert part is not None
    names = [int(node["name"]) for node in part.nodes]
    assert (names[0], names[-1]) == (min(culprits), max(culprits))
    assert bench.tries <= 14


def test_what_does_not_die_with_random_weights_is_not_narrowed_down() -> None:
    bench = Bench(8, {99})
    assert smallest_failing(bench.cut, bench.dies) is None
    assert bench.tries == 1


def test_a_part_that_cannot_stand_alone_is_passed_over() -> None:
    bench = Bench(8, {6}, refused={4, 6})
    part = smallest_failing(bench.cut, bench.dies)
    assert part is not None
    assert [node["name"] for node in part.nodes][-1] == "6"


def test_the_time_is_kept_and_the_best_so_far_is_given() -> None:
    bench = Bench(64, {3})
    part = smallest_failing(bench.cut, bench.dies, budget_s=0)
    assert part is not None
    assert len(part.nodes) == 64


def test_a_crash_is_a_program_that_died_and_not_one_that_refused() -> None:
    assert is_crash(StageCrashed("crashed: SIGSEGV"))
    assert is_crash(ToolchainFailed("it died", detail={"returncode": -6}))
    assert not is_crash(ToolchainFailed("it refused", detail={"returncode": 1}))
    assert not is_crash(StageTimedOut("too slow"))
    assert not is_crash(StageFailed("no"))


# --- the parts -------------------------------------------------------------------------------------
def three_layers() -> onnx.ModelProto:
    weight = numpy_helper.from_array(np.full((4, 3, 3, 3), 7, np.float32), "w")
    bound = numpy_helper.from_array(np.array(6, np.float32), "six")
    zero = numpy_helper.from_array(np.array(0, np.float32), "zero")
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="conv", pads=[1, 1, 1, 1]),
        helper.make_node("Clip", ["c", "zero", "six"], ["r"], name="clip"),
        helper.make_node("Softmax", ["r"], ["y"], name="softmax", axis=1),
    ]
    return small.model(nodes, [small.value("x", [1, 3, 8, 8])], [small.value("y", [1, 4, 8, 8])], [weight, bound, zero])


def part_of(tmp_path: Path, first: int, end: int | None) -> tuple[onnx.ModelProto, dict[str, Any]]:
    source = small.write(tmp_path / "whole.onnx", three_layers())
    request = {
        "model": str(source),
        "first": first,
        "end": end,
        "shapes": {},
        "output": str(tmp_path / "part.onnx"),
        "samples": str(tmp_path / "samples.zip"),
    }
    facts = cut(request, lambda fraction, text: None)
    return onnx.load(tmp_path / "part.onnx"), facts


def test_a_part_from_the_middle_is_a_valid_model_with_samples(tmp_path: Path) -> None:
    part, facts = part_of(tmp_path, 1, 2)
    onnx.checker.check_model(part)
    assert facts == {"total": 3, "nodes": [{"name": "clip", "op_type": "Clip"}]}
    assert [value.name for value in part.graph.input] == ["c"]
    assert [value.name for value in part.graph.output] == ["r"]
    with zipfile.ZipFile(tmp_path / "samples.zip") as archive, archive.open("0.npz") as file:
        assert np.load(file)["c"].shape == (1, 4, 8, 8)


def test_weights_are_random_and_small_constants_stay(tmp_path: Path) -> None:
    part, _ = part_of(tmp_path, 0, None)
    tensors = {tensor.name: numpy_helper.to_array(tensor) for tensor in part.graph.initializer}
    assert not (tensors["w"] == 7).any()
    assert tensors["six"] == 6


def test_a_part_whose_input_has_no_known_shape_is_refused(tmp_path: Path) -> None:
    model = three_layers()
    model.graph.node[0].domain = "elsewhere"
    path = small.write(tmp_path / "odd.onnx", model)
    request = {"model": str(path), "first": 1, "end": None, "shapes": {}, "output": str(tmp_path / "p"), "samples": ""}
    with pytest.raises(InvalidModel, match="shape of tensor 'c'"):
        cut(request, lambda fraction, text: None)


def test_the_hint_says_what_the_file_is() -> None:
    nodes = ({"name": "a", "op_type": "Conv"}, {"name": "b", "op_type": "Conv"})
    text = advice_of(Part(NOWHERE, NOWHERE, nodes, 90), "bie.triage.onnx")
    assert text.startswith("2 of 90 nodes are enough for it to die (Conv); bie.triage.onnx")
