"""Micro-batching of the cloud worker beside single calls, and both beside onnxruntime alone: times of one picture, as
ratios within one run.

The worker runs as a process, as an agent starts it, with and without batching; many callers send it pictures at
the same time, in turn. Needs the models of shared/data. Only models with a free batch dimension can be batched.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from statistics import median

import httpx
import numpy as np

from app.inference.picture_codec import encode
from app.inference.predictor_options import PredictorOptions
from app.inference.runtimes.sessions import open_session, run
from ops.benchmarks.joint import SECRET, SERVICE, big_model
from tests.harness.joint.data_sets import Side
from tests.harness.paths import SHARED_DATA

MODELS = {
    "digits_big": (1, 8, 8),
    "cls_mobilenet_v2_128_dynamic_batch": (3, 128, 128),
    "face_yunet_n_dynamic": (3, 320, 320),
}
"""Names, and the shape of one input."""
AT_ONCE, CALLERS, PICTURES, ROUNDS = 8, 16, 160, 7
Part = tuple[str | None, bytes | str, str]
"""Name of a file, content and its type."""
BATCHED = {"batch": str(AT_ONCE), "batch_wait_ms": "5"}


def main() -> None:
    if not SHARED_DATA.is_dir():
        print(f"There are no models at {SHARED_DATA}: nothing to measure.", file=sys.stderr)
        return
    print(f"{CALLERS} callers, up to {AT_ONCE} pictures in a call, one thread; medians of {ROUNDS} alternating rounds")
    print(f"{'ms per picture':38}{'alone':>9}{'8 at once':>11}{'ratio':>7}{'worker':>10}{'batched':>9}{'ratio':>7}")
    for name, shape in MODELS.items():
        measured = _measure(name, shape)
        alone, at_once, single, batched = (median(times) * 1000 for times in measured)
        print(
            f"{name:38}{alone:>9.3f}{at_once:>11.3f}{alone / at_once:>6.2f}x"
            f"{single:>10.3f}{batched:>9.3f}{single / batched:>6.2f}x"
        )
    print("alone, 8 at once: onnxruntime's own calls; ratio: how much less time a picture takes with several at once")


def _measure(name: str, shape: tuple[int, ...]) -> list[list[float]]:
    """Returns the seconds per picture of the rounds: onnxruntime one by one and at once, the worker without and with
    batching."""
    model = SHARED_DATA / "models" / f"{name}.onnx"
    noise = np.random.default_rng(1)
    session = open_session(model, 1)
    source = session.get_inputs()[0].name
    inputs = [noise.random((1, *shape), np.float32) for _ in range(PICTURES)]
    side = (shape[1], shape[2]) if shape[0] == 1 else (shape[1], shape[2], shape[0])
    pictures = [encode(noise.integers(0, 256, side, np.uint8))[0] for _ in range(PICTURES)]

    def at_once() -> None:
        for first in range(0, PICTURES, AT_ONCE):
            run(session, {source: np.concatenate(inputs[first : first + AT_ONCE])})

    def alone() -> None:
        for array in inputs:
            run(session, {source: array})

    with ExitStack() as stack:
        ways: list[Callable[[], None]] = [alone, at_once]
        for parameters in ({}, BATCHED):
            host, port = stack.enter_context(big_model(Side(model, PredictorOptions(), {"labels": "a", **parameters})))
            client = stack.enter_context(httpx.Client(base_url=f"http://{host}:{port}", trust_env=False, timeout=60))
            pool = stack.enter_context(ThreadPoolExecutor(CALLERS))
            ways.append(_requests(client, pool, pictures))
        for way in ways:
            way()
        return [list(times) for times in zip(*([_seconds(way) for way in ways] for _ in range(ROUNDS)), strict=True)]


def _requests(client: httpx.Client, pool: ThreadPoolExecutor, pictures: list[bytes]) -> Callable[[], None]:
    headers = {"Authorization": f"Bearer {SECRET}"}

    def send(picture: bytes) -> None:
        meta: Part = (None, json.dumps({"id": "1"}), "application/json")
        files: dict[str, Part] = {"meta": meta, "picture": ("p", picture, "application/octet-stream")}
        client.post(f"/{SERVICE}/predict", files=files, headers=headers).raise_for_status()

    def send_all() -> None:
        list(pool.map(send, pictures))

    return send_all


def _seconds(way: Callable[[], None]) -> float:
    began = time.perf_counter()
    way()
    return (time.perf_counter() - began) / PICTURES
