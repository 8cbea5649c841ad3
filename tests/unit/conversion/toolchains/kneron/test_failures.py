"""Each failure the vendor is known for, provoked in the stand-in and told to the user."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.conversion.errors import ToolchainFailed, ToolchainMissing
from app.conversion.model import Stage
from app.conversion.toolchains.kneron import failures
from app.conversion.toolchains.kneron.known_failures import TABLE
from tests.standins import kneron

GENERIC = "AssertionError: Quantization model generation failed. See above message for details."

# id, blame, a line as users saw it, a word that the message must hold
TEXTS = [
    ("toolchain_missing", "toolchain", "ModuleNotFoundError: No module named 'numpy'", "imported"),
    ("python_not_found", "toolchain", "/bin/sh: 1: python: command not found", "helper"),
    ("undefined_cpu_op", "model", "Invalid program input: undefined CPU op [Erf] of node [erf_3]", "Erf at node erf_3"),
    ("calibration_input_missing", "options",
     "Cannot find the corresponding input image folder of model input data_2", "data_2"),
    ("stored_shapes", "model", "RuntimeError: Inferred shape and existing shape differ in rank: (4) vs (2)", "shapes"),
    ("ir_version", "model", "Unsupported model IR version: 10, max supported IR version: 9", "version 10"),
    ("opset", "model", "Current official support for domain ai.onnx is till opset 18.", "18"),
    ("calibration_dtype", "options",
     "Unexpected input data type. Actual: (tensor(double)), expected: (tensor(float))", "number type"),
    ("external_weights", "model", "Data of TensorProto ( tensor name: w) should be stored in w.bin", "separate files"),
    ("lfs_pointer", "model", "ValueError: model identifier 'ion ', should be 'TFL3'", "git-lfs"),
    ("weight_radix", "toolchain", "Assertion `weight_radix_vect.size() == (size_t)o_c' failed.", "weight scales"),
    ("not_a_bie", "toolchain",
     "ValueError: Currently, batch compile only support models after fix point analysis.", "not quantized"),
    ("disk_full", "resources", "OSError: [Errno 28] No space left on device", "disk"),
    ("out_of_memory", "resources", "terminate called after throwing an instance of 'std::bad_alloc'", "memory"),
    ("helper_died", "resources",
     "CalledProcessError: Command '['run_updater', '-i']' died with <Signals.SIGABRT: 6>.", "SIGABRT"),
    ("unexpected_argument", "toolchain", "TypeError: analysis() got an unexpected keyword argument 'radix'", "radix"),
    ("not_on_hardware", "model", "ERROR: hw not support node conv_7", "chip"),
    ("model_step", "model", 'Failure for model "input/input" when running "kdp520/compiler frontend"',
     "kdp520/compiler frontend"),
    ("not_supported", "model", "layout CHW is not supported", "not supported"),
    ("compile_failed", "toolchain", "failed to compile, err: 4", "compiler"),
    ("quantization_failed", "toolchain", GENERIC, "quantization"),
]  # fmt: skip


@pytest.mark.parametrize(("id", "blame", "line", "word"), TEXTS, ids=[entry[0] for entry in TEXTS])
def test_a_known_text_is_told_with_cause_hint_blame_and_its_line(id: str, blame: str, line: str, word: str) -> None:
    found = failures.classify(["start", line + "\n", "end"])
    assert found is not None
    assert (found.id, found.blame) == (id, blame)
    assert word in found.message and found.hint
    assert line in found.lines


def test_every_class_of_the_table_has_a_text_above() -> None:
    assert [failure.id for failure in TABLE] == [entry[0] for entry in TEXTS]


@pytest.mark.parametrize("entry", TEXTS[:-1], ids=[entry[0] for entry in TEXTS[:-1]])
def test_a_cause_wins_over_the_generic_message_that_follows_it(entry: tuple[str, str, str, str]) -> None:
    found = failures.classify([entry[2], GENERIC])
    assert found is not None and found.id == entry[0]
    assert GENERIC in found.lines, "the general line is kept as context"


def test_a_log_without_a_known_text_is_not_guessed_at() -> None:
    assert (
        failures.classify(["all fine", "128 images", 'Success for model "a/a" when running "general/Success"']) is None
    )


def test_the_flow_table_names_the_step_that_failed() -> None:
    lines = ["==== report on flow status ====", "| knerex | ✓ |", "| gen_nef | x |"]
    found = failures.classify(lines)
    assert found is not None and found.id == "flow_step" and "gen_nef" in found.message
    assert found.lines == ("| gen_nef | x |",)
    assert failures.classify(lines[:2]) is None
    assert failures.classify(lines[1:]) is None, "a cross outside the table means nothing"


def test_long_lines_and_long_logs_are_cut() -> None:
    found = failures.classify("hw not support " + "x" * 9000 + str(i) for i in range(500))
    assert found is not None
    assert len(found.lines) <= failures.LINES_LIMIT and max(map(len, found.lines)) <= failures.LINE_WIDTH


@pytest.mark.parametrize(("code", "id", "blame"), [
    (-6, "killed", "resources"), (-9, "killed", "resources"), (-24, "cpu_limit", "resources"),
    (-11, "crashed", "toolchain"), (-99, "crashed", "toolchain"),
])  # fmt: skip
def test_a_signal_is_told_by_what_it_most_likely_means(code: int, id: str, blame: str) -> None:
    found = failures.from_signal(code)
    assert (found.id, found.blame) == (id, blame) and found.hint


def test_operators_the_evaluator_calls_unsupported_are_collected_once() -> None:
    line = "WARNING: unsupported op [Erf] node [erf_3]"
    lines = [line, "undefined CPU op [Loop] of node [l]", line]
    assert failures.unsupported_operators(lines) == [
        {"operator": "Erf", "node": "erf_3"},
        {"operator": "Loop", "node": "l"},
    ]


# The same through the whole toolchain: mode of the stand-in → class
ANALYSIS = {
    "quantization": "model_step", "cpu_op": "undefined_cpu_op", "not_on_hardware": "not_on_hardware",
    "helper": "helper_died", "abort": "killed", "kill": "killed", "segfault": "crashed", "systemexit": "system_exit",
    "table_only": "flow_step", "no_input_folder": "calibration_input_missing", "stored_shapes": "stored_shapes",
    "ir_version": "ir_version", "opset": "opset", "dtype": "calibration_dtype", "external": "external_weights",
    "lfs": "lfs_pointer", "weight_radix": "weight_radix", "memory": "out_of_memory", "bad_alloc": "out_of_memory",
    "disk": "disk_full", "no_python": "python_not_found", "failed_to_compile": "compile_failed",
    "unsupported": "not_supported", "unknown": "unknown", "argument": "unexpected_argument", "no_file": "no_output",
    "none": "no_output", "empty": "no_output", "broken_report": "report_incomplete", "no_numpy": "toolchain_missing",
    "exit": "no_result",
}  # fmt: skip
COMPILE = {
    "not_a_bie": "not_a_bie", "no_file": "no_output", "empty": "no_output", "garbage": "bad_nef", "bad_crc": "bad_nef",
    "systemexit": "system_exit", "abort": "killed",
}  # fmt: skip


@pytest.mark.parametrize("mode", ANALYSIS)
def test_a_failing_quantization_is_told_by_its_cause(tmp_path: Path, mode: str) -> None:
    job = kneron.Job(tmp_path, kneron.model(f"analysis:{mode}"), kneron.options()).prime()
    with pytest.raises(ToolchainFailed) as caught:
        job.run(Stage.BIE, kneron.toolchain(tmp_path))
    error = caught.value
    assert error.detail["id"] == ANALYSIS[mode]
    assert error.message and error.hint and error.detail["lines"]
    assert error.detail["blame"] in ("model", "toolchain", "resources", "options")
    assert not isinstance(error, ToolchainMissing)


@pytest.mark.parametrize("mode", COMPILE)
def test_a_failing_compilation_is_told_by_its_cause(tmp_path: Path, mode: str) -> None:
    job = kneron.Job(tmp_path, kneron.model(f"compile:{mode}"), kneron.options()).prime()
    tool = kneron.toolchain(tmp_path)
    job.run(Stage.BIE, tool)
    with pytest.raises(ToolchainFailed) as caught:
        job.run(Stage.NEF, tool)
    assert caught.value.detail["id"] == COMPILE[mode] and caught.value.hint


def test_stored_shapes_that_contradict_the_graph_are_cured_by_clear_shapes(tmp_path: Path) -> None:
    made, tool = kneron.model("optimize:stored_shapes"), kneron.toolchain(tmp_path)
    with pytest.raises(ToolchainFailed) as caught:
        kneron.Job(tmp_path / "a", made, kneron.options()).run(Stage.ONNX, tool)
    assert caught.value.detail["id"] == "stored_shapes" and "clear_shapes" in caught.value.hint
    kneron.Job(tmp_path / "b", made, kneron.options(clear_shapes=True)).run(Stage.ONNX, tool)
