"""What bad input gets: an error that names the cause and says what to do, nothing half-created, a service that goes on.

The cases themselves are tried in the unit tests of intake; here each is seen to reach the user, through HTTP.
"""

from __future__ import annotations

import io
import json
import socket
import stat
import struct
import zipfile
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import httpx
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from PIL import Image

from tests.harness.api import (
    Api,
    Named,
    has_ended,
    keys,
    not_a_number_model,
    npy,
    npz,
    png,
    pngs,
    small_model,
    vector_model,
    zipped,
)
from tests.harness.deployment import Deployment
from tests.harness.models import host as host_models
from tests.harness.models import small
from tests.harness.until import until

LFS_POINTER = (
    b"version https://git-lfs.github.com/spec/v1\n"
    b"oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n"
)


def footprint(service: Deployment, api: Api) -> set[str]:
    """What submissions leave: jobs in the list, jobs with objects, folders of checks. Jobs of others may still write
    objects."""
    with_objects = {key.split("/")[1] for key in keys(service, "jobs/")}
    return {*api.job_ids(), *with_objects, *(path.name for path in service.settings().work.glob("intake-*"))}


def assert_error(answer: httpx.Response, status: int, code: str, *words: str, hint: bool = True) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert error["code"] == code
    assert all(word in error["message"] for word in words), error["message"]
    assert bool(error["hint"]) or not hint
    return dict(error)


@pytest.fixture
def untouched(service: Deployment, api: Api) -> Iterator[None]:
    """Whatever the test does, no job and no object of a job comes of it."""
    before = footprint(service, api)
    yield
    assert not footprint(service, api) - before


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """A second service with low limits and no workers."""
    limits = {"max_model_bytes": "20000", "max_images_bytes": "20000", "intake_time_s": "0.001"}
    with Deployment(tmp_path_factory.mktemp("narrow"), **limits) as deployment:
        deployment.web()
        yield deployment


@pytest.fixture(scope="module", autouse=True)
def _still_works(service: Deployment) -> Iterator[None]:
    """After all of it the same processes convert a good model."""
    yield
    with Api(service.url) as api:
        assert api.convert(small_model(), pngs(3))["status"] == "COMPLETED"
    assert [process.poll() for process in service.processes] == [None] * len(service.processes)


# --- the model ----------------------------------------------------------------------------------------
def with_external_weights(location: str) -> bytes:
    model = small.conv((1, 3, 16, 16))
    weight = model.graph.initializer[0]
    size = len(weight.raw_data)
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", "0"), ("length", str(size))):
        weight.external_data.add(key=key, value=value)
    return bytes(model.SerializeToString())


def with_strange_operator() -> bytes:
    model = small.conv((1, 3, 16, 16))
    model.graph.node.append(helper.make_node("Frobnicate", ["y"], ["z"], name="strange"))
    return bytes(model.SerializeToString())


def broken_graph() -> bytes:
    model = small.conv((1, 3, 16, 16))
    model.graph.node[0].input[0] = "nowhere"
    return bytes(model.SerializeToString())


@pytest.mark.parametrize(
    ("model", "code", "words"),
    [
        pytest.param(b"#!/bin/sh\nrm -rf /\n" * 20, "MODEL_NOT_ONNX", ["not an ONNX model"], id="no onnx"),
        pytest.param(png(1), "MODEL_NOT_ONNX", ["PNG"], id="a picture"),
        pytest.param(b"", "MODEL_NOT_ONNX", ["not an ONNX model"], id="an empty file"),
        pytest.param(LFS_POINTER, "MODEL_IS_LFS_POINTER", ["git-lfs pointer"], id="an lfs pointer"),
        pytest.param(small_model()[:-200], "MODEL_TRUNCATED", ["ends early"], id="a truncated file"),
        pytest.param(
            with_external_weights("weights.bin"),
            "MODEL_EXTERNAL_WEIGHTS",
            ["missing", "weights.bin"],
            id="weights in another file",
        ),
        pytest.param(
            with_external_weights("../../etc/passwd"),
            "MODEL_EXTERNAL_WEIGHTS",
            ["outside", "../../etc/passwd"],
            id="weights outside the folder",
        ),
        pytest.param(
            small.conv((1, 3, 16, 16), ir=99).SerializeToString(), "MODEL_TOO_NEW", ["IR version 99"], id="ir too new"
        ),
        pytest.param(
            small.conv((1, 3, 16, 16), opset=99).SerializeToString(),
            "MODEL_TOO_NEW",
            ["opset 99"],
            id="opset too new",
        ),
        pytest.param(
            small.conv(("N", 3, "H", "W")).SerializeToString(),
            "MODEL_DYNAMIC_SHAPE",
            ["'x'", "unknown size"],
            id="dynamic shape",
        ),
        pytest.param(
            with_strange_operator(),
            "MODEL_UNSUPPORTED_OPERATOR",
            ["operator Frobnicate", "node 'strange'"],
            id="unsupported operator",
        ),
        pytest.param(broken_graph(), "MODEL_INVALID", ["breaks the rules of ONNX"], id="broken graph"),
    ],
)
def test_a_bad_model_is_refused_naming_the_cause(
    api: Api, untouched: None, model: bytes, code: str, words: list[str]
) -> None:
    assert_error(api.submit(model, pngs(2)), 422, code, *words)


def test_a_dynamic_shape_is_fine_once_the_user_gives_one_that_fits(api: Api) -> None:
    model = small.conv(("N", 3, "H", "W")).SerializeToString()
    refused = api.submit(model, pngs(3), options={"input_shapes": {"x": [1, 4, 16, 16]}})
    assert_error(refused, 422, "MODEL_DYNAMIC_SHAPE", "axis 1 is 3, not 4")
    refused = api.submit(model, pngs(3), options={"input_shapes": {"image": [1, 3, 16, 16]}})
    assert_error(refused, 422, "BAD_INPUT", "'image'", "['x']")
    job = api.convert(model, pngs(3), options={"input_shapes": {"x": [1, 3, 16, 16]}})
    assert job["status"] == "COMPLETED", job["error"]


# --- the reference pictures -----------------------------------------------------------------------------
def hostile_zip(entry: zipfile.ZipInfo, data: bytes = b"x") -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("good.png", png(1))
        archive.writestr(entry, data)
    return file.getvalue()


def symbolic_link() -> bytes:
    entry = zipfile.ZipInfo("link.png")
    entry.create_system = 3
    entry.external_attr = (stat.S_IFLNK | 0o777) << 16
    return hostile_zip(entry, b"/etc/passwd")


def bomb() -> bytes:
    entry = zipfile.ZipInfo("bomb.png")
    entry.compress_type = zipfile.ZIP_DEFLATED
    return hostile_zip(entry, bytes(50_000_000))


def encrypted() -> bytes:
    """As if packed with a password: the flag is set in both headers of each entry."""
    data = bytearray(zipped(pngs(1)))
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        place = data.index(mark) + offset
        flags = struct.unpack_from("<H", data, place)[0]
        struct.pack_into("<H", data, place, flags | 1)
    return bytes(data)


PICTURES = small_model()
VECTOR = vector_model()
FLOATS = np.ones((8, 6), np.float32)


@pytest.mark.parametrize(
    ("model", "images", "status", "code", "words"),
    [
        pytest.param(
            PICTURES,
            ("a.zip", hostile_zip(zipfile.ZipInfo("../../evil.png"))),
            422,
            "IMAGES_BAD_ARCHIVE",
            ["../../evil.png", "outside"],
            id="zip slip",
        ),
        pytest.param(
            PICTURES,
            ("a.zip", hostile_zip(zipfile.ZipInfo("/etc/evil.png"))),
            422,
            "IMAGES_BAD_ARCHIVE",
            ["/etc/evil.png", "absolute"],
            id="absolute path",
        ),
        pytest.param(
            PICTURES,
            ("a.zip", symbolic_link()),
            422,
            "IMAGES_BAD_ARCHIVE",
            ["link.png", "symbolic link"],
            id="symbolic link",
        ),
        pytest.param(PICTURES, ("a.zip", bomb()), 413, "IMAGES_ZIP_BOMB", ["bomb.png", "times"], id="zip bomb"),
        pytest.param(PICTURES, ("a.zip", encrypted()), 422, "IMAGES_BAD_ARCHIVE", ["encrypted"], id="encrypted"),
        pytest.param(
            PICTURES, ("a.zip", zipped(pngs(3))[:-30]), 422, "IMAGES_BAD_ARCHIVE", ["damaged"], id="truncated zip"
        ),
        pytest.param(
            PICTURES,
            ("a.zip", zipped([("notes.txt", b"hello")])),
            422,
            "IMAGES_NONE",
            ["notes.txt"],
            id="a zip of no images",
        ),
        pytest.param(PICTURES, ("a.zip", zipped([])), 422, "IMAGES_NONE", ["empty"], id="zero images"),
        pytest.param(PICTURES, ("a.png", b""), 422, "IMAGES_DAMAGED", ["a.png"], id="an empty picture"),
        pytest.param(
            PICTURES, ("a.zip", LFS_POINTER), 422, "IMAGES_BAD_ARCHIVE", ["git-lfs pointer"], id="an lfs pointer"
        ),
        pytest.param(
            VECTOR, ("a.png", png(1)), 422, "IMAGES_WRONG_SHAPE", ["pictures do not fit"], id="pictures for numbers"
        ),
        pytest.param(
            VECTOR,
            ("a.npy", npy(np.ones((8, 7), np.float32))),
            422,
            "IMAGES_WRONG_SHAPE",
            ["[8, 7]", "[1, 6]"],
            id="npy of a wrong size",
        ),
        pytest.param(
            PICTURES,
            ("a.npy", npy(np.ones((1, 1, 16, 16), np.float32))),
            422,
            "IMAGES_WRONG_SHAPE",
            ["[1, 1, 16, 16]", "[1, 3, 16, 16]"],
            id="npy of a wrong channel count",
        ),
        pytest.param(
            VECTOR,
            ("a.npy", npy(FLOATS.astype(np.float64))),
            422,
            "IMAGES_WRONG_TYPE",
            ["float64", "float32"],
            id="float64",
        ),
        pytest.param(
            VECTOR,
            ("a.npy", npy(np.array([{"a": 1}], dtype=object))),
            422,
            "IMAGES_WRONG_TYPE",
            ["object"],
            id="python objects",
        ),
        pytest.param(VECTOR, ("a.npy", npy(FLOATS)[:-8]), 422, "IMAGES_DAMAGED", ["ends early"], id="truncated npy"),
        pytest.param(
            VECTOR, ("a.npy", npy(FLOATS * np.float32("nan"))), 422, "IMAGES_WRONG_TYPE", ["NaN"], id="NaN samples"
        ),
        pytest.param(
            host_models.two_inputs().SerializeToString(),
            ("a.npz", npz(left=FLOATS)),
            422,
            "IMAGES_WRONG_SHAPE",
            ["left", "right"],
            id="npz without an input",
        ),
    ],
)
def test_bad_reference_samples_are_refused_naming_the_cause(
    api: Api, untouched: None, model: bytes, images: tuple[str, bytes], status: int, code: str, words: list[str]
) -> None:
    assert_error(api.submit(model, [images]), status, code, *words)


def test_a_damaged_image_is_named_and_left_out_only_if_the_user_allows_it(service: Deployment, api: Api) -> None:
    images: Named = [("pictures.zip", zipped([*pngs(3), ("broken.png", png(9)[:60])]))]
    before = footprint(service, api)
    error = assert_error(api.submit(small_model(), images), 422, "IMAGES_DAMAGED", "broken.png")
    assert "allow" in error["hint"]
    assert not footprint(service, api) - before
    job = api.convert(small_model(), images, options={"allow_damaged_images": True})
    assert job["status"] == "COMPLETED", job["error"]
    assert job["intake"]["samples"]["samples"] == 3
    assert [skipped["name"] for skipped in job["intake"]["samples"]["skipped"]] == ["broken.png"]
    assert "SAMPLES_SKIPPED" in [warning["code"] for warning in job["intake"]["warnings"]]


def test_pictures_that_are_all_damaged_are_none_even_if_the_user_allows_it(api: Api, untouched: None) -> None:
    refused = api.submit(small_model(), [("a.png", png(1)[:60])], options={"allow_damaged_images": True})
    assert_error(refused, 422, "IMAGES_NONE", "can be read")


# --- limits -------------------------------------------------------------------------------------------
def big_model() -> bytes:
    weights = {"w": host_models.random_weights(6, 5000)}
    nodes = [helper.make_node("Gemm", ["x", "w"], ["y"], "gemm")]
    return bytes(host_models.model_of(nodes, {"x": [1, 6]}, {"y": [1, 5000]}, weights).SerializeToString())


def test_a_model_over_the_limit_is_refused_and_not_kept(narrow: Deployment) -> None:
    answer = httpx.post(f"{narrow.url}/uploads", files={"model": ("model.onnx", big_model())})
    assert_error(answer, 413, "MODEL_TOO_LARGE", "20000 bytes")
    assert keys(narrow, "") == set()


def test_images_over_the_limit_are_refused_and_the_model_beside_them_not_kept(narrow: Deployment) -> None:
    files: list[Any] = [("model", ("model.onnx", small_model()))]
    files += [("images", (name, data)) for name, data in pngs(40)]
    assert_error(httpx.post(f"{narrow.url}/uploads", files=files), 413, "IMAGES_TOO_LARGE", "20000 bytes")
    assert keys(narrow, "") == set()


def test_a_put_over_the_limit_is_refused_and_not_kept(narrow: Deployment) -> None:
    link = httpx.post(f"{narrow.url}/uploads/presign", json={}).json()["model"]
    assert_error(httpx.put(link["url"], content=big_model()), 413, "TOO_LARGE", "20000 bytes")
    assert link["key"] not in keys(narrow, "")


def test_inputs_that_cannot_be_checked_in_time_are_refused(narrow: Deployment) -> None:
    picture = io.BytesIO()
    Image.new("L", (9000, 9000)).save(picture, "PNG", optimize=True)
    images = [("pictures.zip", zipped([(f"{index}.png", picture.getvalue()) for index in range(8)]))]
    with Api(narrow.url) as api:
        error = assert_error(api.submit(small_model(), images), 422, "BAD_INPUT", "timed out")
        assert error["detail"] == {"cause": "STAGE_TIMED_OUT"}
        assert api.job_ids() == []
    assert keys(narrow, "jobs/") == set()


# --- keys ---------------------------------------------------------------------------------------------
NOBODY = "11111111-2222-4333-8444-555555555555"


@pytest.mark.parametrize(
    "key",
    [
        f"uploads/{NOBODY}/model.onnx",
        f"jobs/{NOBODY}/input/model.onnx",
        "model.onnx",
        "../model.onnx",
        "uploads/../uploads/{id}/model.onnx",
        "uploads/{id}/../{id}/model.onnx",
        "uploads/{id}/upload.json",
        "uploads/{id}/model.onnx\n",
        "/uploads/{id}/model.onnx",
        "file:///etc/passwd",
        "x" * 512,
        "\0",
    ],
)
@pytest.mark.parametrize("field", ["model_key", "quant_key"])
def test_a_key_that_is_none_of_an_upload_is_refused(api: Api, untouched: None, field: str, key: str) -> None:
    stored = api.upload(small_model(), pngs(1))
    body = {"model_key": stored["model_key"], "quant_key": stored["quant_key"]}
    answer = api.http.post("/jobs", json={**body, field: key.replace("{id}", stored["upload_id"])})
    assert_error(answer, 422, "KEY_NOT_FOUND", "not the key")


def test_the_outputs_of_a_job_are_no_inputs_of_another(api: Api) -> None:
    job = api.convert(small_model(), pngs(2))
    stored = api.upload(images=pngs(1))
    body = {"model_key": job["output"]["onnx_key"], "quant_key": stored["quant_key"]}
    assert_error(api.http.post("/jobs", json=body), 422, "KEY_NOT_FOUND", "not the key")


def test_a_link_that_nothing_was_put_to_is_no_input(api: Api, untouched: None) -> None:
    links = api.http.post("/uploads/presign", json={}).json()
    body = {"model_key": links["model"]["key"], "quant_key": links["images"]["key"]}
    assert_error(api.http.post("/jobs", json=body), 422, "KEY_NOT_FOUND", "not the key")


# --- bodies -------------------------------------------------------------------------------------------
@pytest.mark.parametrize("path", ["/jobs", "/uploads/presign"])
@pytest.mark.parametrize("body", [b"", b"model_key=x", b"{", b'{"a": 1}}', b"\xff\xfe", b'"\\ud800"', b"[" * 5000])
def test_a_body_that_is_no_json_is_refused(api: Api, untouched: None, path: str, body: bytes) -> None:
    assert_error(api.http.post(path, content=body), 400, "BAD_REQUEST", "not JSON")


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded"])
def test_json_is_taken_whatever_it_is_called(api: Api, kind: str) -> None:
    """curl -d says that its body is a form."""
    assert api.http.post("/uploads/presign", content=b"{}", headers={"Content-Type": kind}).status_code == 201


@pytest.mark.parametrize("headers", [{"Sec-Fetch-Site": "cross-site"}, {"Origin": "https://elsewhere.example"}])
def test_a_change_that_another_sites_page_orders_is_refused(api: Api, untouched: None, headers: dict[str, str]) -> None:
    answer = api.http.post("/uploads/presign", json={}, headers=headers)
    assert_error(answer, 403, "FORBIDDEN", "did not come from a page of this server")


def test_a_body_that_is_far_too_long_is_refused(api: Api, untouched: None) -> None:
    body = json.dumps({"model_key": "x" * (2 << 20)}).encode()
    assert_error(api.http.post("/jobs", content=body), 413, "TOO_LARGE", "1048576 bytes")


KEYS = {"model_key": f"uploads/{NOBODY}/model.onnx", "quant_key": f"uploads/{NOBODY}/quant.zip"}


@pytest.mark.parametrize(
    ("body", "word"),
    [
        pytest.param({}, "model_key", id="no keys"),
        pytest.param({"model_key": KEYS["model_key"]}, "quant_key", id="no images"),
        pytest.param([], "object", id="a list"),
        pytest.param({**KEYS, "priority": 9}, "priority", id="unknown field"),
        pytest.param({**KEYS, "model_key": 5}, "model_key", id="a number as key"),
        pytest.param({**KEYS, "name": "x" * 201}, "name", id="long name"),
        pytest.param({**KEYS, "tags": ["x"] * 21}, "tags", id="many tags"),
        pytest.param({**KEYS, "tags": [" "]}, "tags.0", id="blank tag"),
        pytest.param({**KEYS, "options": {"speed": "fast"}}, "options.speed", id="unknown option"),
        pytest.param(
            {**KEYS, "options": {"quantization": {"method": "magic"}}},
            "options.quantization.method",
            id="unknown method",
        ),
        pytest.param(
            {**KEYS, "options": {"preprocess": {"std": [0]}}}, "options.preprocess.std.0", id="division by zero"
        ),
        pytest.param({**KEYS, "options": {"input_shapes": {"x": [0, 3]}}}, "options.input_shapes.x.0", id="axis of 0"),
        pytest.param({**KEYS, "options": {"platform": "520"}}, "platform", id="chip for host"),
        pytest.param({**KEYS, "options": {"toolchain": "kneron"}}, "platform", id="kneron without a chip"),
        pytest.param({**KEYS, "options": {"toolchain": "tensorrt"}}, "options.toolchain", id="unknown toolchain"),
    ],
)
def test_a_wrong_field_is_refused_by_its_name(api: Api, untouched: None, body: Any, word: str) -> None:
    error = assert_error(api.http.post("/jobs", json=body), 422, "BAD_INPUT", word)
    assert error["detail"]["problems"]


def test_a_toolchain_that_is_not_offered_is_refused_with_those_that_are(api: Api, untouched: None) -> None:
    options = {"toolchain": "kneron", "platform": "520"}
    error = assert_error(api.submit(small_model(), pngs(2), options=options), 422, "BAD_INPUT", "kneron")
    assert "host" in error["hint"]


def test_a_job_id_that_is_no_uuid_is_answered_like_an_unknown_one(api: Api) -> None:
    of_another_version = NOBODY.replace("-4", "-1")
    for job_id in ("7", "not-a-uuid", NOBODY.upper().replace("1", "a"), of_another_version, "%20", "%00", "*"):
        answer = api.http.get(httpx.URL(f"{api.http.base_url}/jobs/{job_id}/artifacts"))
        assert_error(answer, 404, "JOB_NOT_FOUND")
    for other_path in ("..", "..%2f.."):
        answer = api.http.get(httpx.URL(f"{api.http.base_url}/jobs/{other_path}/artifacts"))
        assert_error(answer, 404, "NOT_FOUND", hint=False)


def test_of_two_cancels_the_second_is_refused(api: Api) -> None:
    job_id = api.start(small_model(), pngs(2))
    answers = [api.http.post(f"/jobs/{job_id}/cancel") for _ in range(2)]
    assert answers[0].status_code == 200
    assert_error(answers[1], 409, "JOB_FINISHED", job_id, "CANCELLED", hint=False)


# --- uploads ------------------------------------------------------------------------------------------
@pytest.fixture
def nothing_kept(service: Deployment) -> Iterator[None]:
    """The uploads folder is the same before and after."""
    before = keys(service, "uploads/")
    yield
    until(lambda: keys(service, "uploads/") == before)


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ({"Content-Type": "application/octet-stream"}, b"model"),
        ({"Content-Type": "application/json"}, b"{}"),
        ({"Content-Type": "multipart/form-data"}, b"--x\r\n"),
        ({"Content-Type": "multipart/mixed; boundary=x"}, b"--x\r\n"),
        ({}, b"model"),
    ],
)
def test_an_upload_that_is_not_multipart_is_refused_with_an_example(
    api: Api, nothing_kept: None, headers: dict[str, str], body: bytes
) -> None:
    error = assert_error(api.http.post("/uploads", content=body, headers=headers), 415, "NOT_MULTIPART", "multipart")
    assert "curl" in error["hint"]


def form(*parts: tuple[str, bytes], end: bytes = b"--x--\r\n") -> dict[str, Any]:
    """A multipart body by hand: (disposition, content) per part."""
    body = b"".join(
        b"--x\r\nContent-Disposition: form-data; " + d.encode() + b"\r\n\r\n" + c + b"\r\n" for d, c in parts
    )
    return {"content": body + end, "headers": {"Content-Type": "multipart/form-data; boundary=x"}}


@pytest.mark.parametrize(
    ("parts", "word"),
    [
        pytest.param([('name="labels"; filename="w"', b"x")], "'labels'", id="unknown field"),
        pytest.param([('name="weights"; filename="w"', b"x")], "without their model", id="weights alone"),
        pytest.param(
            [('name="model"; filename="a"', b"x"), ('name="model"; filename="b"', b"y")], "'model'", id="two models"
        ),
        pytest.param([('name="model"', b"x")], "must be a file", id="a value, no file"),
        pytest.param(
            [
                ('name="images"; filename="a.png"', b"x"),
                ('name="model"; filename="b"', b"y"),
                ('name="images"; filename="c.png"', b"z"),
            ],
            "'images'",
            id="images not in a row",
        ),
        pytest.param(
            [('name="images"; filename="a.zip"', b"x"), ('name="images"; filename="b.zip"', b"y")],
            "one zip",
            id="two zips",
        ),
    ],
)
def test_an_upload_of_wrong_parts_is_refused(
    api: Api, nothing_kept: None, parts: list[tuple[str, bytes]], word: str
) -> None:
    answer = api.http.post("/uploads", **form(*parts))
    assert_error(answer, 400, "BAD_REQUEST", word)


def test_an_upload_of_nothing_is_refused(api: Api, nothing_kept: None) -> None:
    assert_error(api.http.post("/uploads", **form()), 422, "IMAGES_NONE", "no file")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"garbage",
        b"--x\r\n",
        b"--x\r\nno header\r\n\r\nx\r\n--x--\r\n",
        b'--x\r\nContent-Disposition: form-data; name="model"; filename="m"\r\n\r\nhalf',
        b'--x\r\nContent-Disposition: form-data; name="\xff"; filename="\xfe"\r\n\r\nx\r\n--x--\r\n',
        b'--x\r\nContent-Disposition: form-data; name="model"; filename="' + b"m" * 10000 + b'"\r\n\r\nx\r\n--x--\r\n',
    ],
)
def test_a_body_that_is_no_multipart_or_ends_early_is_refused(api: Api, nothing_kept: None, body: bytes) -> None:
    answer = api.http.post("/uploads", content=body, headers={"Content-Type": "multipart/form-data; boundary=x"})
    assert_error(answer, 400, "BAD_REQUEST", "ended early")


@pytest.mark.parametrize("path", ["/uploads", "a link"])
def test_an_upload_that_breaks_off_in_the_middle_leaves_nothing(service: Deployment, api: Api, path: str) -> None:
    headers = {"Host": "localhost", "Content-Length": str(64 << 20)}
    body = b"x" * (3 << 20)
    if path == "/uploads":
        method = "POST"
        request = form(('name="model"; filename="m.onnx"', body), end=b"")
        headers |= request["headers"]
        body = request["content"]
    else:
        method, link = "PUT", api.http.post("/uploads/presign", json={}).json()["model"]["url"]
        path = link.removeprefix(service.url)
    before = keys(service, "uploads/")
    head = f"{method} {path} HTTP/1.1\r\n" + "".join(f"{k}: {v}\r\n" for k, v in headers.items()) + "\r\n"
    with socket.create_connection(("127.0.0.1", service.web_port)) as connection:
        connection.sendall(head.encode() + body)
        until(lambda: drafts(service))
    until(lambda: not drafts(service) and keys(service, "uploads/") == before)


def drafts(service: Deployment) -> list[str]:
    """Files of the store that are no objects yet."""
    return [path.name for path in (service.settings().objects / "drafts").iterdir()]


# --- at work ------------------------------------------------------------------------------------------
def test_a_model_that_yields_no_numbers_fails_with_the_tensor_and_the_worker_lives_on(api: Api) -> None:
    job = api.convert(not_a_number_model(), pngs(3))
    assert job["status"] == "FAILED"
    assert job["error"]["code"] == "STAGE_NOT_FINITE"
    assert "NaN" in job["error"]["reason"]
    assert job["error"]["hint"]
    again = api.convert(small_model(), pngs(2))
    assert again["status"] == "COMPLETED"
    step = job["error"]["step"]
    assert again["stages"][step]["worker"] == job["stages"][step]["worker"]


def test_nothing_of_a_refused_submission_is_in_the_way_of_a_good_one(api: Api) -> None:
    stored, name = api.upload(small_model(), [("a.zip", encrypted())]), uuid4().hex
    body = {"model_key": stored["model_key"], "quant_key": stored["quant_key"], "name": name}
    assert api.http.post("/jobs", json=body).status_code == 422
    better = api.upload(images=pngs(2))
    answer = api.http.post("/jobs", json={**body, "quant_key": better["quant_key"]})
    assert answer.status_code == 201, answer.text
    assert api.wait(answer.json()["job_id"], has_ended)["status"] == "COMPLETED"
    assert onnx.load_model_from_string(api.http.get(f"/jobs/{answer.json()['job_id']}/artifacts/out.onnx").content)
