"""Each failure the vendor is known for is told by what stands in its log."""

from __future__ import annotations

import pytest

from app.conversion.toolchains.kneron import verdict
from app.conversion.toolchains.kneron.known_failures import TABLE
from tests.standins import kneron

GENERIC = "AssertionError: Quantization model generation failed. See above message for details."

# id, blame, a line as users saw it, a word that the message must hold
TEXTS = [
    ("toolchain_missing", "toolchain", "ModuleNotFoundError: No module named 'numpy'", "imported"),
    ("python_not_found", "toolchain", "/bin/sh: 1: python: command not found", "helper"),
    ("undefined_cpu_op", "model", "Invalid program input: undefined CPU op [Erf] of node [erf_3]", "Erf at node erf_3"),
    (
        "calibration_input_missing",
        "options",
        "Cannot find the corresponding input image folder of model input data_2",
        "data_2",
    ),
    ("stored_shapes", "model", "RuntimeError: Inferred shape and existing shape differ in rank: (4) vs (2)", "shapes"),
    ("ir_version", "model", "Unsupported model IR version: 10, max supported IR version: 9", "version 10"),
    ("opset", "model", "Current official support for domain ai.onnx is till opset 18.", "18"),
    (
        "calibration_dtype",
        "options",
        "Unexpected input data type. Actual: (tensor(double)), expected: (tensor(float))",
        "number type",
    ),
    ("external_weights", "model", "Data of TensorProto ( tensor name: w) should be stored in w.bin", "separate files"),
    ("lfs_pointer", "model", "ValueError: model identifier 'ion ', should be 'TFL3'", "git-lfs"),
    ("weight_radix", "toolchain", "Assertion `weight_radix_vect.size() == (size_t)o_c' failed.", "weight scales"),
    (
        "not_a_bie",
        "toolchain",
        "ValueError: Currently, batch compile only support models after fix point analysis.",
        "not quantized",
    ),
    ("disk_full", "resources", "OSError: [Errno 28] No space left on device", "disk"),
    ("out_of_memory", "resources", "terminate called after throwing an instance of 'std::bad_alloc'", "memory"),
    (
        "helper_died",
        "resources",
        "CalledProcessError: Command '['run_updater', '-i']' died with <Signals.SIGABRT: 6>.",
        "SIGABRT",
    ),
    ("unexpected_argument", "toolchain", "TypeError: analysis() got an unexpected keyword argument 'radix'", "radix"),
    ("not_on_hardware", "model", "ERROR: hw not support node conv_7", "chip"),
    (
        "model_step",
        "model",
        'Failure for model "input/input" when running "kdp520/compiler frontend"',
        "kdp520/compiler frontend",
    ),
    ("not_supported", "model", "layout CHW is not supported", "not supported"),
    ("compile_failed", "toolchain", "failed to compile, err: 4", "compiler"),
    ("quantization_failed", "toolchain", GENERIC, "quantization"),
]


def test_a_known_text_is_told_with_cause_hint_blame_and_its_line() -> None:
    for id, blame, line, word in TEXTS:
        failure = verdict.classify(["start", line + "\n", "end"])
        assert failure is not None, id
        assert (failure.id, failure.blame) == (id, blame)
        assert word in failure.message and failure.hint, id
        assert line in failure.lines, id


def test_every_class_of_the_table_has_a_text_above() -> None:
    assert [failure.id for failure in TABLE] == [entry[0] for entry in TEXTS]


def test_a_cause_wins_over_the_generic_message_that_follows_it() -> None:
    for id, _, line, _ in TEXTS[:-1]:
        failure = verdict.classify([line, GENERIC])
        assert failure is not None and failure.id == id
        assert GENERIC in failure.lines, "the general line is kept as context"


def test_what_the_vendor_prints_and_raises_is_told_by_its_cause() -> None:
    modes = {mode: id for mode, id in kneron.BY_TEXT.items() if mode != "kill"}
    failures_by_mode = {mode: verdict.classify(kneron.log_of(mode)) for mode in modes}
    assert {mode: one and one.id for mode, one in failures_by_mode.items()} == modes


def test_a_log_without_a_known_text_is_not_guessed_at() -> None:
    assert (
        verdict.classify(["all fine", "128 images", 'Success for model "a/a" when running "general/Success"']) is None
    )


def test_the_flow_table_names_the_step_that_failed() -> None:
    lines = ["==== report on flow status ====", "| knerex | ✓ |", "| gen_nef | x |"]
    failure = verdict.classify(lines)
    assert failure is not None and failure.id == "flow_step" and "gen_nef" in failure.message
    assert failure.lines == ("| gen_nef | x |",)
    assert verdict.classify(lines[:2]) is None
    assert verdict.classify(lines[1:]) is None, "a cross outside the table means nothing"


def test_long_lines_and_long_logs_are_cut() -> None:
    failure = verdict.classify("hw not support " + "x" * 9000 + str(i) for i in range(50))
    assert failure is not None
    assert len(failure.lines) <= verdict.LINES_LIMIT and max(map(len, failure.lines)) <= verdict.LINE_WIDTH


@pytest.mark.parametrize(
    ("code", "id", "blame"),
    [
        (-6, "killed", "resources"),
        (-9, "killed", "resources"),
        (-24, "cpu_limit", "resources"),
        (-11, "crashed", "toolchain"),
        (-99, "crashed", "toolchain"),
    ],
)
def test_a_signal_is_told_by_what_it_most_likely_means(code: int, id: str, blame: str) -> None:
    failure = verdict.from_signal(code)
    assert (failure.id, failure.blame) == (id, blame) and failure.hint


def test_operators_the_evaluator_calls_unsupported_are_collected_once() -> None:
    line = "WARNING: unsupported op [Erf] node [erf_3]"
    lines = [line, "undefined CPU op [Loop] of node [l]", line]
    assert verdict.list_unsupported_operators(lines) == [
        {"operator": "Erf", "node": "erf_3"},
        {"operator": "Loop", "node": "l"},
    ]
