"""What a command sends to calibrate a service."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import httpx
import pytest

from app.joint_inference.client import JointClient
from app.joint_inference.errors import BadSamples
from app.kit.errors import NotFound


def send(samples: Path) -> bytes:
    """Returns the body of the request."""
    bodies: list[bytes] = []

    def answer(request: httpx.Request) -> httpx.Response:
        assert request.url.path == "/api/v2/services/default/digits/calibrations"
        bodies.append(request.read())
        return httpx.Response(201, json={"state": "WAITING"})

    with JointClient("http://localhost", transport=httpx.MockTransport(answer)) as client:
        assert client.calibrate_with("default", "digits", samples) == {"state": "WAITING"}
    (body,) = bodies
    return body


def test_a_folder_goes_as_a_zip_of_its_pictures_and_labels(tmp_path: Path) -> None:
    for name in ("images/1.jpg", "images/2.PNG", "labels/1.txt", "data.yaml", "Annotations/2.xml", "clip.mp4"):
        path = tmp_path / "set" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    head, _, rest = send(tmp_path / "set").partition(b"\r\n\r\n")
    assert b'name="samples"; filename="set.zip"' in head
    with zipfile.ZipFile(io.BytesIO(rest[: rest.rindex(b"\r\n--")])) as archive:
        names = {"images/1.jpg", "images/2.PNG", "labels/1.txt", "data.yaml", "Annotations/2.xml"}
        assert {name: archive.read(name).decode() for name in archive.namelist()} == {name: name for name in names}


def test_a_file_goes_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "set.npz").write_bytes(b"arrays")
    body = send(tmp_path / "set.npz")
    assert b'filename="set.npz"' in body and b"\r\n\r\narrays\r\n" in body


def test_what_has_no_pictures_is_not_sent(tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_text("name,class")
    with pytest.raises(BadSamples, match="no JPEG or PNG"):
        send(tmp_path)
    with pytest.raises(NotFound, match="There is no"):
        send(tmp_path / "none.zip")
