"""A user's view of the service in few words, and the files that such a user has."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import httpx
import numpy as np
import onnx
from modelmill_client.event_stream import events_of
from PIL import Image

from app.kit.objects.filesystem import FilesystemStore
from tests.harness.deployment import Deployment
from tests.harness.models import host as host_models
from tests.harness.until import PATIENCE_S, until

Named = Sequence[tuple[str, bytes]]
FINISHED = ("COMPLETED", "FAILED")


def png(seed: int, side: int = host_models.SIDE, mode: str = "RGB") -> bytes:
    channels = {"RGB": (3,), "L": ()}[mode]
    pixels = np.random.default_rng(seed).integers(0, 256, (side, side, *channels), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def pngs(count: int, side: int = host_models.SIDE) -> Named:
    return [(f"{index}.png", png(index, side)) for index in range(count)]


def npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def npz(**arrays: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.savez(file, allow_pickle=True, **arrays)
    return file.getvalue()


def zipped(members: Named) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return file.getvalue()


def small_model() -> bytes:
    """Takes pictures of 16x16 in colour."""
    return host_models.convolutional().SerializeToString()


def vector_model(outputs: int = 5) -> bytes:
    """Takes 6 numbers."""
    weights = {"w": host_models.random_weights(6, outputs)}
    nodes = [onnx.helper.make_node("Gemm", ["x", "w"], ["y"], "gemm")]
    return host_models.model_of(nodes, {"x": [1, 6]}, {"y": [1, outputs]}, weights).SerializeToString()


def classifying_model(classes: int = 3) -> bytes:
    """Takes pictures of 16x16 in colour; its output is one of a classifier."""
    weights = {"w": host_models.random_weights(classes, 3, 3, 3)}
    nodes = [
        onnx.helper.make_node("Conv", ["x", "w"], ["c"], "conv", pads=[1, 1, 1, 1]),
        onnx.helper.make_node("GlobalAveragePool", ["c"], ["p"], "pool"),
        onnx.helper.make_node("Flatten", ["p"], ["y"], "flat"),
    ]
    model = host_models.model_of(nodes, {"x": [1, 3, 16, 16]}, {"y": [1, classes]}, weights)
    return bytes(model.SerializeToString())


def two_input_model() -> bytes:
    return host_models.two_inputs().SerializeToString()


def not_a_number_model() -> bytes:
    """Its first half is fine; the logarithm of the negative ones among its values is none."""
    weights = {"w": host_models.random_weights(4, 3, 3, 3)}
    nodes = [
        onnx.helper.make_node("Conv", ["x", "w"], ["c"], "conv", pads=[1, 1, 1, 1]),
        onnx.helper.make_node("Log", ["c"], ["y"], "log"),
    ]
    model = host_models.model_of(nodes, {"x": [1, 3, 16, 16]}, {"y": [1, 4, 16, 16]}, weights)
    return bytes(model.SerializeToString())


def slow_model(side: int) -> bytes:
    """Takes pictures of this size in colour, and a good while for hundreds; a small one is soon through stage ONNX."""
    weights = {"w0": host_models.random_weights(48, 3, 3, 3)}
    weights |= {f"w{i}": host_models.random_weights(48, 48, 3, 3, seed=i) * 0.1 for i in range(1, 7)}
    nodes = [
        onnx.helper.make_node("Conv", [f"t{i}" if i else "x", f"w{i}"], [f"t{i + 1}"], f"c{i}", pads=[1, 1, 1, 1])
        for i in range(7)
    ]
    nodes.append(onnx.helper.make_node("Relu", ["t7"], ["y"], "relu"))
    shapes = {"x": [1, 3, side, side]}, {"y": [1, 48, side, side]}
    return host_models.model_of(nodes, *shapes, weights).SerializeToString()


def slow_job() -> tuple[bytes, Named]:
    """Model and pictures: soon in stage BIE, and there for a good while."""
    return slow_model(64), pngs(300, side=32)


class Api:
    def __init__(self, url: str) -> None:
        self.http = httpx.Client(base_url=url, timeout=PATIENCE_S, trust_env=False)

    def __enter__(self) -> Api:
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()

    def upload(self, model: bytes | None = None, images: Named = ()) -> dict[str, Any]:
        files = [("model", ("model.onnx", model))] if model is not None else []
        files += [("images", file) for file in images]
        answer = self.http.post("/uploads", files=files)
        assert answer.status_code == 201, answer.text
        return dict(answer.json())

    def submit(self, model: bytes, images: Named, **fields: Any) -> httpx.Response:
        """Upload both and ask for a job. fields: of the body of POST /jobs."""
        stored = self.upload(model, images)
        body = {"model_key": stored["model_key"], "quant_key": stored["quant_key"], **fields}
        return self.http.post("/jobs", json=body)

    def start(self, model: bytes, images: Named, **fields: Any) -> str:
        answer = self.submit(model, images, **fields)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["job_id"])

    def convert(self, model: bytes, images: Named, **fields: Any) -> dict[str, Any]:
        """The record of the job at its end."""
        return self.wait(self.start(model, images, **fields), has_ended)

    def job(self, job_id: str) -> dict[str, Any]:
        answer = self.http.get(f"/jobs/{job_id}")
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def wait(self, job_id: str, reached: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        return until(lambda: self.job(job_id), reached)

    def job_ids(self) -> list[str]:
        """Of all jobs, newest first."""
        job_ids, cursor = list[str](), None
        while True:
            page = self.http.get("/jobs", params={"limit": 200, **({"cursor": cursor} if cursor else {})}).json()
            job_ids += [job["job_id"] for job in page["jobs"]]
            cursor = page["next_cursor"]
            if not cursor:
                return job_ids


def code_of(answer: httpx.Response) -> tuple[int, str]:
    """Status and code of an error."""
    return answer.status_code, answer.json()["error"]["code"]


def has_ended(job: Mapping[str, Any]) -> bool:
    return job["status"] in FINISHED


def events(lines: Iterator[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Frames of a server-sent event stream: the event's name and its data."""
    return ((event, json.loads(data)) for event, data in events_of(lines))


def store_of(service: Deployment) -> FilesystemStore:
    return FilesystemStore(service.settings().objects)


def keys(service: Deployment, prefix: str) -> set[str]:
    return {info.key for info in store_of(service).list(prefix)}
