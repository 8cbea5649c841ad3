"""Pictures through the edge worker of a service, one after the other, as a program beside it sends them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import numpy as np

from app.inference.picture_codec import encode
from app.joint_inference.cli.demo.models import Digits
from app.joint_inference.cli.demo.scores import StreamAnswer
from app.joint_inference.model.tally import Source
from app.kit.cli.command import Unreachable
from app.kit.clock import ms_since
from app.kit.text.json_values import JsonObject

TIMEOUT_S = 30.0
AWAY_S, AGAIN_S = 60.0, 0.5
"""How long a worker may be away, as while it is restarted, and the pause between two attempts."""
Predict = Callable[[int], JsonObject]


def stream(address: str, service: str, digits: Digits, cloud: np.ndarray) -> Iterator[StreamAnswer]:
    """Sends digits one after the other, and answers what became of each.

    Args:
        address: host:port of the edge worker.
        service: name.
        cloud: what the big model says of each picture, also of those that it is not asked for: a class each.

    Raises:
        Unreachable: The worker does not answer, or refuses, for AWAY_S.
    """
    with httpx.Client(base_url=f"http://{address}", timeout=TIMEOUT_S, trust_env=False) as client:
        for number, (picture, truth) in enumerate(zip(digits.pictures, digits.truth, strict=True)):
            data, content_type = encode(picture)
            began = time.perf_counter()
            files = {"picture": ("digit.png", data, content_type)}
            reply = _post(client, f"/{service}/predict", files=files, data={"id": f"digit-{number}"})
            took_ms = ms_since(began)
            yield _read_answer(reply.json(), int(truth), int(cloud[number]), took_ms)


def _post(client: httpx.Client, path: str, **body: Any) -> httpx.Response:
    """Again, while the worker is being restarted."""
    deadline = time.monotonic() + AWAY_S
    while True:
        try:
            return client.post(path, **body).raise_for_status()
        except httpx.HTTPError as error:
            if time.monotonic() >= deadline:
                raise Unreachable(f"The edge worker at {client.base_url.netloc.decode()} does not answer.") from error
            time.sleep(AGAIN_S)


def _read_answer(reply: JsonObject, truth: int, cloud: int, took_ms: float) -> StreamAnswer:
    source = Source(reply["source"])
    return StreamAnswer(
        truth=truth,
        edge=_get_label(reply["edge"]),
        cloud=cloud,
        final=_get_label(reply["final"]),
        was_uploaded=source is Source.CLOUD,
        was_fallback=source is Source.EDGE_FALLBACK,
        ms=took_ms,
        edge_ms=float(reply["edge_ms"]),
        cloud_ms=float(reply["cloud_ms"]) if reply["cloud_ms"] is not None else None,
    )


def _get_label(prediction: JsonObject) -> int:
    return int(np.argmax(prediction["probabilities"]))
