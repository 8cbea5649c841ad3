"""What both trainers of the stand-in do. The names and texts are those of verl's RayResourcePool and ResourcePoolManager."""

from __future__ import annotations

import os
import signal
import time
import traceback
from pathlib import Path
from typing import Any

import ray

MAX_COLOCATE_COUNT = 3


class OutOfMemoryError(RuntimeError):
    """As torch.OutOfMemoryError reads in a log."""


def run(arguments: list[str], *, has_check: bool) -> int:
    config = parse(arguments)
    print(f"config: {config}", flush=True)
    time.sleep(float(config.get("standin.delay_s", 0)))
    ray.init()
    try:
        ray.get(TaskRunner.remote().run.remote(config, has_check))
    except Exception:
        traceback.print_exc()
        for line in range(int(config.get("standin.noise", 0))):
            print(f"(raylet) noise {line}", flush=True)
        return 1
    if config.get("standin.fail") == "kill9":
        os.kill(os.getpid(), signal.SIGKILL)
    return 0


def parse(arguments: list[str]) -> dict[str, str]:
    """Hydra's overrides: key=value, +key=value, ++key=value."""
    config = {}
    for argument in arguments:
        key, equals, value = argument.lstrip("+").partition("=")
        if not equals:
            raise SystemExit(f"mismatched input in override '{argument}'")
        config[key] = value.strip("'\"")
    return {**config, **_instructions(Path(config.get("data.train_files", "")))}


def _instructions(data: Path) -> dict[str, str]:
    """What it is to do stands where verl finds its data: a task may not say anything that verl does not know."""
    if data.suffix != ".standin":
        return {}
    return {f"standin.{key}": value for key, _, value in (line.partition("=") for line in data.read_text().splitlines())}


@ray.remote(num_cpus=1)
class TaskRunner:
    def run(self, config: dict[str, str], has_check: bool) -> None:
        gpus, nodes = int(config.get("trainer.n_gpus_per_node", 8)), int(config.get("trainer.nnodes", 1))
        if has_check:
            _check_resource_available(gpus * nodes)
        groups = _take(gpus, nodes)
        print(f"training on {nodes} x {gpus} GPUs", flush=True)
        time.sleep(float(config.get("standin.hold_s", 1)))
        _end(config)
        for group in groups:
            ray.util.remove_placement_group(group)


def _check_resource_available(total_required_gpus: int) -> None:
    node_available_resources = ray._private.state.available_resources_per_node()
    node_available_gpus = {
        node: info.get("GPU", 0) if "GPU" in info else info.get("NPU", 0)
        for node, info in node_available_resources.items()
    }
    total_available_gpus = sum(node_available_gpus.values())
    if total_available_gpus < total_required_gpus:
        raise ValueError(
            f"Total available GPUs {total_available_gpus} is less than total desired GPUs {total_required_gpus}"
        )


def _take(gpus: int, nodes: int) -> list[Any]:
    bundles = [{"CPU": MAX_COLOCATE_COUNT, "GPU": 1} for _ in range(gpus)]
    groups = [ray.util.placement_group(bundles, strategy="STRICT_PACK") for _ in range(nodes)]
    for group in groups:
        group.wait(timeout_seconds=86400)  # as group.ready(), for which Ray starts a process in each group
    return groups


def _end(config: dict[str, str]) -> None:
    how = config.get("standin.fail")
    if how == "user":
        raise FileNotFoundError(2, "No such file or directory", config.get("data.train_files", "/no/such/train.parquet"))
    if how == "runtime":
        raise RuntimeError("loss is not a number")
    if how == "oom":
        raise OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 79.10 GiB")
    if "standin.out" in config:
        out = Path(os.environ.get("MODELMILL_JOB_FOLDER", "."), config["standin.out"])
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_bytes(_model())


def _model() -> bytes:
    """A classifier of 8x8 pictures in grey, untrained."""
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    weights = np.random.default_rng(0).normal(size=(64, 10)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("Flatten", ["image"], ["flat"], "flatten"), helper.make_node("MatMul", ["flat", "w"], ["scores"], "matmul")],
        "classifier",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 1, 8, 8])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, 10])],
        [numpy_helper.from_array(weights, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    onnx.checker.check_model(model)
    return model.SerializeToString()
