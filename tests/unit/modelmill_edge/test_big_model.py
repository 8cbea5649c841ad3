"""A big model of one's own behind HTTP, as edge workers ask it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from modelmill_edge import BigModelService, Box, Picture, Prediction
from modelmill_edge.big_model import MAX_BODY_BYTES

from app.inference.prediction import Prediction as WorkersPrediction

ANYTHING = bytes(range(256)) + b"\r\n--\r\n\r\n-" + b"\r\r\n\n"


def look(picture: Picture) -> Prediction:
    if picture.data == b"break":
        raise RuntimeError("out of memory")
    return Prediction((Box(1, 2, 3, 4, 0.5, len(picture.data)),))


def test_key_points_and_masks_are_as_workers_read_them() -> None:
    part = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0)
    sent = Prediction((Box(1, 2, 3, 4, 0.5, 1, ((1.5, 2.0, 0.9),), (part,)), Box(5, 6, 7, 8, 0.5)))
    read = WorkersPrediction.from_json(sent.to_json())
    assert [box.mask for box in read.boxes] == [(((1, 2), (3, 4), (5, 6)),), ()]
    assert [box.keypoints for box in read.boxes] == [((1.5, 2.0, 0.9),), ()]
    assert Prediction.from_json(read.to_json()) == sent
    assert set(Prediction(sent.boxes[1:]).to_json()) == {"boxes", "probabilities", "ms"}


@pytest.fixture
def service() -> Iterator[BigModelService]:
    served = BigModelService(look, service="faces", host="127.0.0.1", port=0, secret="s3cret", labels=("face",))
    thread = threading.Thread(target=served.serve)
    thread.start()
    yield served
    served.close()
    thread.join()


def post(service: BigModelService, picture: bytes = ANYTHING, path: str = "faces", **headers: str) -> httpx.Response:
    headers = {"Authorization": "Bearer s3cret", **headers}
    files: Any = {"meta": (None, '{"id": "a"}', "application/json"), "picture": ("p", picture, "image/png")}
    url = f"http://127.0.0.1:{service.port}/{path}/predict"
    return httpx.post(url, files=files, headers=headers, trust_env=False)


def test_each_byte_of_a_picture_reaches_the_model_and_its_answer_the_worker(service: BigModelService) -> None:
    answer = post(service)
    prediction = WorkersPrediction.from_json(answer.json())
    assert (answer.status_code, answer.json()["id"]) == (200, "a")
    assert [box.to_json() for box in prediction.boxes] == [[1, 2, 3, 4, 0.5, len(ANYTHING)]]
    state = httpx.get(f"http://127.0.0.1:{service.port}/faces", trust_env=False).json()
    assert state == {"service": "faces", "labels": ["face"], "answered": 1}


def test_without_the_secret_nothing_is_looked_at(service: BigModelService) -> None:
    for shown in ("", "Bearer other", "s3cret"):
        assert post(service, Authorization=shown).status_code == 401
    assert service.answered == 0


def test_a_model_that_fails_says_why_and_serves_on(service: BigModelService) -> None:
    failed = post(service, b"break")
    assert (failed.status_code, failed.json()["error"]["code"]) == (500, "MODEL_FAILED")
    assert "out of memory" in failed.json()["error"]["message"]
    assert post(service).status_code == 200


def test_bad_requests_are_told_apart(service: BigModelService) -> None:
    url, headers = f"http://127.0.0.1:{service.port}/faces/predict", {"Authorization": "Bearer s3cret"}
    with httpx.Client(headers=headers, trust_env=False) as http:
        assert http.post(url, content=b"x").json()["error"]["message"] == "The body must be multipart/form-data."
        lacking = http.post(url, files={"meta": (None, "{}")})
        assert (lacking.status_code, lacking.json()["error"]["message"]) == (400, "The part picture is missing.")
        cut = http.post(url, content=b"--x\r\n", headers={"Content-Type": "multipart/form-data; boundary=x"})
        assert cut.status_code == 400
        assert post(service, path="other").status_code == 404
        assert http.post(url, content=bytes(MAX_BODY_BYTES + 1)).status_code == 413
        assert post(service).status_code == 200
