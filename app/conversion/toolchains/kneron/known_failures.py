"""The table of the vendor's failure texts: data only, read by `failures`.

Texts: vendor manual v0.33.1 and what its users reported. The first entry that matches a log wins, so specific causes
precede general ones.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

Blame = Literal["model", "toolchain", "resources", "options"]
Severity = Literal["specific", "general"]


@dataclass(frozen=True)
class VendorFailure:
    """A class of failures. `cause` may name groups of the pattern, such as {op}. `general`: a symptom, not a cause."""

    id: str
    text: str
    cause: str
    hint: str
    blame: Blame
    severity: Severity = "specific"
    pattern: re.Pattern[str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "pattern", re.compile(self.text, re.IGNORECASE))


MEMORY_HINT = "Use fewer reference pictures or fewer threads, or give the worker more memory."
OPERATOR_HINT = (
    "Cut the model before this node and compute the rest outside, replace the operator, or choose another chip; "
    "opt_matmul, replace_avgpool_with_conv and replace_dilated_conv rewrite some patterns."
)

TABLE = (
    VendorFailure(
        "toolchain_missing",
        r"No module named '?(ktc|numpy|onnx)\b",
        "the vendor's Python package cannot be imported",
        "Run this worker inside the vendor's image and point it to the interpreter of its onnx1.13 environment.",
        "toolchain",
    ),
    VendorFailure(
        "python_not_found",
        r"python3?: command not found|No such file or directory: '?python3?\b",
        "the toolchain could not start its helper, because no `python` is on the path",
        "Use the image's own interpreter by its full path and mount nothing over /workspace.",
        "toolchain",
    ),
    VendorFailure(
        "undefined_cpu_op",
        r"undefined CPU op \[(?P<op>[^\]]*)\] of node \[(?P<node>[^\]]*)\]",
        "operator {op} at node {node} runs neither on the NPU nor on the chip's CPU",
        OPERATOR_HINT,
        "model",
    ),
    VendorFailure(
        "calibration_input_missing",
        r"Cannot find the corresponding input image folder of model input (?P<name>\S+)",
        "there is no calibration data for model input {name}",
        "Give reference data for every input of the model, under the input's exact name.",
        "options",
    ),
    VendorFailure(
        "stored_shapes",
        r"Inferred shape and existing shape differ",
        "the shapes stored in the model contradict its graph",
        "Set the option clear_shapes, or give input_shapes.",
        "model",
    ),
    VendorFailure(
        "ir_version",
        r"Unsupported model IR version: (?P<found>\d+), max supported IR version: (?P<most>\d+)",
        "the model's IR version {found} is newer than the toolchain reads ({most})",
        "Export with an older onnx package, or set the model's ir_version to 8.",
        "model",
    ),
    VendorFailure(
        "opset",
        r"official support for domain ai\.onnx is till opset (?P<most>\d+)",
        "the model's opset is newer than the toolchain reads ({most})",
        "Export the model with opset 18 or lower.",
        "model",
    ),
    VendorFailure(
        "calibration_dtype",
        r"Unexpected input data type.*",
        "the calibration data has the wrong number type",
        "Give float32 data; a division by 255 in numpy makes float64.",
        "options",
    ),
    VendorFailure(
        "external_weights",
        r"Data of TensorProto .{0,200}(should be stored in|doesn't exist|is not accessible)",
        "the model keeps weights in separate files",
        "Save it as one file: onnx.save(model, path, save_as_external_data=False).",
        "model",
    ),
    VendorFailure(
        "lfs_pointer",
        r"model identifier 'ion '|version https://git-lfs",
        "the file is a git-lfs pointer, not a model",
        "Fetch the real file with `git lfs pull` and upload that.",
        "model",
    ),
    VendorFailure(
        "weight_radix",
        r"weight_radix_vect\.size\(\) == \(size_t\) ?o_c",
        "the compiler stumbled over the weight scales of a layer (known with ResNet50 on 520)",
        "Try another chip or another toolchain version, or report the model to the vendor.",
        "toolchain",
    ),
    VendorFailure(
        "not_a_bie",
        r"batch compile only support models after fix point analysis",
        "the compiler was given a model that was not quantized",
        "Run the conversion from the start; the BIE file is missing or of another kind.",
        "toolchain",
    ),
    VendorFailure(
        "disk_full",
        r"No space left on device|Disk quota exceeded",
        "the disk ran full",
        "Free space for scratch files (6 GB at least), or use fewer reference pictures.",
        "resources",
    ),
    VendorFailure(
        "out_of_memory",
        r"std::bad_alloc|\bMemoryError\b|Cannot allocate memory|Out of memory|oom-kill|Unable to allocate [\d.]+ .iB",
        "the toolchain ran out of memory",
        MEMORY_HINT,
        "resources",
    ),
    VendorFailure(
        "helper_died",
        r"died with <Signals\.(?P<signal>SIG[A-Z]+): \d+>",
        "a helper of the toolchain died with {signal}, most often for lack of memory",
        MEMORY_HINT,
        "resources",
    ),
    VendorFailure(
        "unexpected_argument",
        r"got an unexpected keyword argument '?(?P<name>\w+)",
        "the installed toolchain does not know the argument {name}",
        "Use the toolchain version this product was written for (v0.33.1).",
        "toolchain",
    ),
    VendorFailure(
        "not_on_hardware",
        r"hw not support|\bunsupported (op|operator|node|layer)",
        "the chip does not support a part of the model",
        OPERATOR_HINT,
        "model",
        "general",
    ),
    VendorFailure(
        "model_step",
        r'Failure for model "(?P<model>[^"]*)" when running "(?P<step>[^"]*)"',
        'the step "{step}" failed',
        "The log lines before it name the cause.",
        "model",
        "general",
    ),
    VendorFailure(
        "not_supported",
        r"\bnot supported\b|\bunsupported\b",
        "something in the model or its options is not supported",
        OPERATOR_HINT,
        "model",
        "general",
    ),
    VendorFailure(
        "compile_failed",
        r"failed to compile|\berr: 4\b",
        "the compiler failed",
        "The log lines before it name the cause.",
        "toolchain",
        "general",
    ),
    VendorFailure(
        "quantization_failed",
        r"Quantization model generation failed",
        "quantization failed",
        "The log above the message names the cause; fewer pictures and threads or another range method may help.",
        "toolchain",
        "general",
    ),
)
