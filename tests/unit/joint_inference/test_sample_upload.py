"""What nodes report is read so that whatever is kept can be shown again."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse

from app.joint_inference.model.tally import Sample
from app.joint_inference.sample_upload import read_sample
from app.joint_inference.service.task_info import read_status
from app.kit.errors import BadInput

PNG = b"\x89PNG\r\n\x1a\n"
SAMPLE: dict[str, Any] = {
    "id": "s1",
    "at": "2026-11-22T12:00:00+00:00",
    "width": 8,
    "height": 8,
    "why": "why",
    "score": 0.5,
    "source": "edge",
    "edge": {"boxes": [], "probabilities": [0.5, 0.5], "ms": 1},
}


def status(**further: Any) -> Any:
    info = {"inferenceNumber": 1, "hardExampleNumber": 0, "uploadCloudRatio": 0.0, **further}
    return {"status": "running", "output": {"taskInfo": info}}


@pytest.mark.parametrize(
    "further",
    [
        {"x": float("nan")},
        {"x": float("inf")},
        {"uploadNumber": int("9" * 400)},
        {"lastError": "half of a character: \ud800"},
        {"currentTime": "0001-01-01T00:00:00+23:00"},
    ],
)
def test_a_status_that_could_not_be_shown_is_refused(further: dict[str, Any]) -> None:
    with pytest.raises(BadInput):
        read_status(status(**further))


def test_further_numbers_and_texts_are_kept() -> None:
    further = {"fps": 24.5, "uploadNumber": 3, "damaged": True, "lastError": "größer", "edgeMsP50": None}
    read = read_status(status(**further)).task_info
    assert {key: read[key] for key in ("fps", "uploadNumber", "damaged", "lastError")} == {
        key: value for key, value in further.items() if value is not None
    }


def received(sample: Any) -> Sample:
    bodies = {"sample": json.dumps(sample).encode(), "picture": PNG}
    parts = [
        b'--x\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n' % (n.encode(), bodies[n]) for n in bodies
    ]
    body = b"".join(parts) + b"--x--\r\n"

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    headers = [(b"content-type", b"multipart/form-data; boundary=x"), (b"content-length", b"%d" % len(body))]
    request = Request({"type": "http", "method": "POST", "path": "/", "headers": headers}, receive)
    return asyncio.run(read_sample(request))[0]


@pytest.mark.parametrize(
    "wrong",
    [
        {"score": float("nan")},
        {"edge": {"boxes": [], "probabilities": [float("inf")], "ms": 1}},
        {"edge": {"boxes": [[1, 2, 3, 4, 5, 1e400]], "probabilities": [], "ms": 1}},
        {"why": "\ud800"},
        {"at": None},
        {"at": "x" * 100},
        {"width": "wide"},
        {"extra": [1]},
    ],
)
def test_a_sample_that_could_not_be_shown_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(BadInput):
        received({**SAMPLE, **wrong})


def test_a_sample_is_kept_as_it_was_sent() -> None:
    kept = received({**SAMPLE, "origin": "clip #7", "extra": {"error": "late"}, "cloud_ms": 4})
    assert (kept.at, kept.origin, kept.extra) == ("2026-11-22T12:00:00.000Z", "clip #7", {"error": "late"})
    JSONResponse(kept.to_json())
