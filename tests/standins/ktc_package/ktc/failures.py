"""The failures a model may ask for, with the texts users reported."""

import os
import signal
import subprocess
import sys
import time


def wanted(call, model):
    """The mode of this call in the model's metadata (or in a dict of it); empty when none."""
    entries = model if isinstance(model, dict) else {entry.key: entry.value for entry in model.metadata_props}
    for pair in entries.get("standin.fail", "").split(","):
        name, _, mode = pair.partition(":")
        if name == call:
            return mode
    return ""


def provoke(call, model):
    """Fail as the model wants, when that mode is one that fails at once."""
    mode = wanted(call, model)
    _, marked, operator = mode.partition("abort_at_")
    if marked and not isinstance(model, dict) and any(node.op_type == operator for node in model.graph.node):
        abort()
    if mode in RAISING:
        RAISING[mode]()
    return mode


def flow_table(step, platform):
    print("=============== report on flow status ===============")
    for name in ("knerex", "gen_nef", "compiler frontend"):
        print("| %-20s | %s |" % (name, "x" if name == step else "✓"))
    print('Failure for model "input/input" when running "kdp%s/%s"' % (platform, step))


def quantization():
    flow_table("compiler frontend", "520")
    raise AssertionError("Quantization model generation failed. See above message for details.")


def cpu_op():
    print("Invalid program input: undefined CPU op [Softmax] of node [softmax_0]")
    quantization()


def not_on_hardware():
    print("ERROR: hw not support node conv_7")
    quantization()


def helper():
    subprocess.run(["python", "-c", "import os; os.abort()"], check=True)  # through PATH, as the vendor does


def abort():
    print("run_updater", flush=True)
    os.abort()


def kill():
    os.kill(os.getpid(), signal.SIGKILL)


def segfault():
    os.kill(os.getpid(), signal.SIGSEGV)


def system_exit():
    print("Error: configuration not understood")
    sys.exit(1)


def raising(error, *lines):
    def act():
        for line in lines:
            print(line)
        raise error

    return act


def table_only():
    print("=============== report on flow status ===============")
    print("| knerex               | ✓ |")
    print("| gen_nef              | x |")
    raise RuntimeError("see above")


RAISING = {
    "quantization": quantization,
    "cpu_op": cpu_op,
    "not_on_hardware": not_on_hardware,
    "helper": helper,
    "abort": abort,
    "kill": kill,
    "segfault": segfault,
    "systemexit": system_exit,
    "table_only": table_only,
    "exit": lambda: os._exit(7),
    "hang": lambda: time.sleep(600),
    "no_input_folder": raising(
        RuntimeError("stop"), "Cannot find the corresponding input image folder of model input data_2"
    ),
    "stored_shapes": raising(RuntimeError("Inferred shape and existing shape differ in rank: (4) vs (2)")),
    "ir_version": raising(RuntimeError("Unsupported model IR version: 10, max supported IR version: 9")),
    "opset": raising(RuntimeError("Current official support for domain ai.onnx is till opset 18.")),
    "dtype": raising(
        RuntimeError("Unexpected input data type. Actual: (tensor(double)), expected: (tensor(float))")
    ),
    "external": raising(
        RuntimeError("Data of TensorProto ( tensor name: w ) should be stored in w.data, but it is not accessible")
    ),
    "lfs": raising(ValueError("model identifier 'ion ', should be 'TFL3'")),
    "weight_radix": raising(
        AssertionError("see above"), "dynasty: Assertion `weight_radix_vect.size() == (size_t)o_c' failed."
    ),
    "not_a_bie": raising(ValueError("Currently, batch compile only support models after fix point analysis.")),
    "memory": raising(MemoryError("Unable to allocate 3.2 GiB for an array")),
    "bad_alloc": raising(RuntimeError("stop"), "terminate called after throwing: std::bad_alloc"),
    "disk": raising(OSError(28, "No space left on device")),
    "no_python": raising(RuntimeError("stop"), "/bin/sh: 1: python: command not found"),
    "failed_to_compile": raising(RuntimeError("stop"), "failed to compile, err: 4"),
    "unsupported": raising(RuntimeError("stop"), "layout CHW is not supported"),
    "unknown": raising(KeyError("surprise")),
    "argument": raising(TypeError("analysis() got an unexpected keyword argument 'radix'")),
    "no_numpy": raising(RuntimeError("stop"), "ModuleNotFoundError: No module named 'numpy'"),
}
"""Further modes, acted on where the files are written: no_file, none, empty, elsewhere, no_report, broken_report,
abort_at_OPERATOR (dies over a model that has one), ignored_bits, cpu_node, unsupported_op, snr_low, snr_ladder (rises with the bit widths), no_int8, bad_crc, garbage, other_chip, stray_helper, dies_after."""
