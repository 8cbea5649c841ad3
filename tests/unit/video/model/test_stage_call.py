"""Calls of stages as they cross the network, there and back; and what is none."""

from __future__ import annotations

import base64
import io
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some
from PIL import Image

from app.kit.errors import BadRequest, TooLarge
from app.video.model.stage_call import JPEG, KEPT, MAX_BODY_BYTES, PNG, RAW, Call, Encoded, pack_call, unpack_call

CODE = "__import__('os').system('touch /tmp/was-evaluated')"


def picture(kind: str = "JPEG") -> bytes:
    file = io.BytesIO()
    Image.fromarray(np.full((40, 40, 3), 90, np.uint8)).save(file, kind)
    return file.getvalue()


def of_json(body: Any, **headers: str) -> Call:
    return unpack_call("s", json.dumps(body).encode(), {"Content-Type": "application/json", **headers}, {})


@pytest.mark.parametrize(
    "call",
    [
        Call("s"),
        Call("s", 2, {"bbox": [[1, 2, 3.5, 4]], "label": ["人"]}, job="GLOBAL_ID_1.SUB_ID_1", frame="7"),
        Call("s", 0, {}, {"image": (Encoded(picture()),)}, want=frozenset({"bbox", "prob"})),
        Call("s", 0, {}, {"image": (Encoded(b"\r\n--x\r\n", f"{RAW};width=2;height=1"),)}),
        Call("s", 1, {}, {"clip": (Encoded(b"a"), Encoded(b"", KEPT), Encoded(b"c", "video/h264;seq=3"))}),
    ],
)
def test_a_call_comes_back_as_it_went(call: Call) -> None:
    assert unpack_call("s", *pack_call(call)) == call


@pytest.mark.slow
@given(data=some.binary(max_size=3000), fields=some.dictionaries(some.text(max_size=8), some.integers(), max_size=3))
def test_any_bytes_come_back(data: bytes, fields: dict[str, int]) -> None:
    fields.pop("model_id", None)
    call = Call("s", 0, fields, {"image": (Encoded(data),)})
    assert unpack_call("s", *pack_call(call)) == call


def test_json_brings_pictures_in_base64() -> None:
    text = base64.b64encode(picture()).decode()
    call = of_json({"image": text, "bbox": [[1, 2, 3, 4]], "model_id": 1}, **{"X-Job": "j", "X-Frame": "3"})
    assert call == Call("s", 1, {"bbox": [[1, 2, 3, 4]]}, {"image": (Encoded(picture(), JPEG),)}, "j", "3")


def test_json_brings_clips_and_png_and_data_urls() -> None:
    png = base64.b64encode(picture("PNG")).decode()
    call = of_json({"clip": [png, f"data:image/png;base64,{png}"]})
    assert call.pictures == {"clip": (Encoded(picture("PNG"), PNG),) * 2}


def test_a_form_of_curl_is_understood() -> None:
    body = (
        b'--b\r\nContent-Disposition: form-data; name="image"; filename="a.jpg"\r\n\r\nJPEG\r\n'
        b'--b\r\nContent-Disposition: form-data; name="bbox"\r\n\r\n[[1,2,3,4]]\r\n'
        b'--b\r\nContent-Disposition: form-data; name="model_id"\r\n\r\n2\r\n--b--\r\n'
    )
    call = unpack_call("s", body, {"content-type": "multipart/form-data; boundary=b"}, {"want": " prob , bbox"})
    assert (call.model_id, call.fields) == (2, {"bbox": [[1, 2, 3, 4]]})
    assert call.pictures == {"image": (Encoded(b"JPEG", JPEG),)}
    assert call.want == {"prob", "bbox"}


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (CODE, "no base64"),
        ("x" * 5, "no base64"),
        ("ä", "no base64"),
        (base64.b64encode(CODE.encode()).decode(), "neither a JPEG nor a PNG"),
        (base64.b64encode(b"GIF89a").decode(), "neither a JPEG nor a PNG"),
        ("", "neither"),
        (7, "not int"),
        (None, "not NoneType"),
        ({"__class__": "x"}, "not dict"),
        (["", 3], "neither"),
    ],
)
def test_what_is_no_picture_is_refused(image: Any, message: str) -> None:
    with pytest.raises(BadRequest, match=message):
        of_json({"image": image})


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"1", b"\xff\xfe", b"[" * 100_000, CODE.encode()])
def test_a_body_that_is_no_object_is_refused(body: bytes) -> None:
    with pytest.raises(BadRequest, match="JSON object"):
        unpack_call("s", body, {}, {})


@pytest.mark.parametrize("model_id", [3, -1, True, "0", None, 1.5, [0], {}])
def test_a_model_id_is_one_of_three(model_id: Any) -> None:
    with pytest.raises(BadRequest, match="model_id is one of 0, 1, 2"):
        of_json({"model_id": model_id})


@pytest.mark.parametrize(
    ("content_type", "body", "message"),
    [
        ("multipart/form-data", b"", "no boundary"),
        ("multipart/form-data; boundary=b", b"--b\r\nnothing", "no valid multipart"),
        ("multipart/form-data; boundary=b", b"", "no valid multipart"),
        (
            "multipart/form-data; boundary=b",
            b'--b\r\nContent-Disposition: form-data; name="fields"\r\n\r\n[1]\r\n--b--\r\n',
            "part fields",
        ),
    ],
)
def test_a_damaged_form_is_refused(content_type: str, body: bytes, message: str) -> None:
    with pytest.raises(BadRequest, match=message):
        unpack_call("s", body, {"content-type": content_type}, {})


def test_a_form_of_thousands_of_parts_is_refused() -> None:
    with pytest.raises(BadRequest, match="no valid multipart"):
        unpack_call("s", *pack_call(Call("s", pictures={"clip": (Encoded(b"a"),) * 1000})))


def test_a_body_has_a_limit() -> None:
    with pytest.raises(TooLarge):
        unpack_call("s", bytes(MAX_BODY_BYTES + 1), {}, {})
