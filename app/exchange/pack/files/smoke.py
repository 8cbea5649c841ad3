"""Does the model answer here as it answered where it was converted? Prints PASS, or the first output that differs."""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
import zipfile
from collections.abc import Callable
from hashlib import sha256
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

try:
    import numpy as np
    from preprocess import prepare
except ImportError as missing:
    sys.exit(f"{missing.name} is missing: python -m pip install numpy onnxruntime")

HERE = Path(__file__).parent
PACK: dict[str, Any] = json.loads((HERE / "pack.json").read_text())
RUNS = 10
Model = Callable[[dict[str, Any]], dict[str, Any]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--report", action="store_true", help="also report the result to the page of the job")
    options = parser.parse_args()
    problem, times = check_nef(), [0.0]
    if not problem:
        problem, times = run_tests()
    print(f"FAIL {problem}" if problem else f"PASS {len(PACK['tests'])} tests, {np.median(times):.2f} ms each")
    if options.report:
        report(problem, float(np.median(times)))
    return 1 if problem else 0


def check_nef() -> str:
    """What is wrong with the file of the model; empty if it is the one that was packed."""
    digest = sha256((HERE / "out.nef").read_bytes()).hexdigest()
    return "" if digest == PACK["nef_sha256"] else f"out.nef is not the file that was packed: its SHA-256 is {digest}"


def run_tests() -> tuple[str, list[float]]:
    """What differs first, and how long each run took in ms."""
    try:
        model = open_kneron() if PACK["toolchain"] == "kneron" else open_host()
    except ImportError as error:
        needed = "the vendor's package kp" if error.name == "kp" else f"python -m pip install {error.name}"
        sys.exit(f"{error.name} is missing: {needed}")
    times: list[float] = []
    for test in PACK["tests"]:
        problem, took_ms = check(model, test)
        times += took_ms
        if problem:
            return problem, times
    return "", times


def check(model: Model, test: dict[str, Any]) -> tuple[str, list[float]]:
    """What differs first, and how long each run took in ms."""
    folder = HERE / test["folder"]
    inputs, expected = dict(np.load(folder / "input.npz")), np.load(folder / "expected.npz")
    if test["has_picture"]:
        (name,) = inputs
        difference = largest(prepare(np.load(folder / "picture.npy")), inputs[name])
        if difference > test["input_atol"]:
            return f"{test['folder']}: preprocess.py gives another input, by {difference:g}", [0.0]
    outputs, times = model(inputs), []
    for _ in range(RUNS):
        begun = time.perf_counter()
        model(inputs)
        times.append((time.perf_counter() - begun) * 1000)
    for name, limit in test["atol"].items():
        if outputs[name].shape != expected[name].shape:
            return f"{test['folder']} output {name}: shape {outputs[name].shape}, not {expected[name].shape}", times
        difference = largest(outputs[name], expected[name])
        if not difference <= limit:
            return f"{test['folder']} output {name}: differs by {difference:g}, {limit:g} is allowed", times
    return "", times


def largest(one: Any, other: Any) -> float:
    return float(np.max(np.abs(one.astype(np.float64) - other.astype(np.float64)), initial=0.0))


def open_host() -> Model:
    """By onnxruntime, as the model was measured."""
    import onnxruntime

    with zipfile.ZipFile(HERE / "out.nef") as nef:
        session = onnxruntime.InferenceSession(nef.read("model.ort"), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return lambda inputs: dict(zip(names, session.run(names, inputs), strict=True))


def open_kneron() -> Model:
    """By the vendor's kp, on the first device: generic data inference, the input packed as the NPU reads it."""
    import kp
    from npu_layout import packing_of, shape_of

    devices = [device for device in kp.core.scan_devices().device_descriptor_list if device.is_connectable]
    if not devices:
        raise SystemExit("FAIL no Kneron device is connected")
    group = kp.core.connect_devices(usb_port_ids=[devices[0].usb_port_id])
    kp.core.set_timeout(device_group=group, milliseconds=5000)
    nef = kp.core.load_model_from_file(device_group=group, file_path=str(HERE / "out.nef"))
    model, chip = nef.models[0], nef.target_chip.name.rpartition("_")[2]
    orders = kp.ChannelOrdering
    is_npu_order = chip in ("KL520", "KL630", "KL720")
    order = orders.KP_CHANNEL_ORDERING_CHW if is_npu_order else orders.KP_CHANNEL_ORDERING_DEFAULT
    packings = [packing_of(node, chip) for node in model.input_nodes]

    def run(inputs: dict[str, Any]) -> dict[str, Any]:
        arrays = list(inputs.values()) if len(inputs) == 1 else [inputs[node.name] for node in model.input_nodes]
        data = [kp.GenericInputNodeData(buffer=p.pack(a)) for p, a in zip(packings, arrays, strict=True)]
        request = kp.GenericDataInferenceDescriptor(model_id=model.id, inference_number=0, input_node_data_list=data)
        kp.inference.generic_data_inference_send(device_group=group, generic_inference_input_descriptor=request)
        raw = kp.inference.generic_data_inference_receive(device_group=group)
        retrieve = kp.inference.generic_inference_retrieve_float_node
        return {
            node.name: np.asarray(
                retrieve(node_idx=index, generic_raw_result=raw, channels_ordering=order).ndarray, np.float32
            ).reshape(shape_of(node))
            for index, node in enumerate(model.output_nodes)
        }

    return run


def report(problem: str, latency_ms: float) -> None:
    if PACK["report"] is None:
        print("not reported: this pack was downloaded with a token that may only read")
        return
    body = {"is_pass": not problem, "latency_ms": latency_ms, "host": platform.node(), "message": problem}
    headers = {"Authorization": f"Bearer {PACK['report']['token']}", "Content-Type": "application/json"}
    headers["Idempotency-Key"] = str(uuid4())
    place = urlsplit(PACK["report"]["url"])
    kind = HTTPSConnection if place.scheme == "https" else HTTPConnection
    connection = kind(place.netloc, timeout=30)
    try:
        connection.request("POST", place.path, json.dumps(body), headers)
        answer = connection.getresponse()
        print("reported" if answer.status < 400 else f"not reported: {answer.status} {answer.reason}")
    except OSError as error:
        print(f"not reported: {place.netloc} does not answer ({error})")
    finally:
        connection.close()


if __name__ == "__main__":
    sys.exit(main())
