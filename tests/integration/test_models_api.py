"""The API of models on the real web: every answer and every refusal, sent as clients send it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from app.bootstrap.container import assemble
from app.conversion.model import JobRecord, Status
from app.model_registry.schemas import MAX_LABELS_TEXT
from tests.harness.api import Api, code_of, pngs, small_model, store_of, vector_model
from tests.harness.conversion_jobs import finished_job
from tests.harness.deployment import Deployment
from tests.harness.users import make_users, person

MODELS, NAMED, FILE = "/api/v2/models", "/api/v2/models/named", "/api/v2/models/file"
MOST_BYTES = 100_000
Job = Callable[..., JobRecord]


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    with Deployment(tmp_path_factory.mktemp("models"), accounts="true", max_model_bytes=str(MOST_BYTES)) as deployment:
        deployment.web()
        make_users(deployment, "alice", "bob")
        yield deployment


@pytest.fixture(scope="module")
def job(deployment: Deployment) -> Iterator[Job]:
    """Makes a job that has completed, of alice's unless another is named."""
    container = assemble(deployment.settings())
    yield lambda owner="alice", *given, **fields: finished_job(container, owner, *given, **fields)
    container.close()


@pytest.fixture
def web(deployment: Deployment) -> Iterator[httpx.Client]:
    """As alice, who has no models."""
    with person(deployment, "alice").api() as api:
        for model in api.http.get(MODELS).json()["models"]:
            assert api.http.delete(NAMED, params={"name": model["name"]}).status_code == 204
        yield api.http


def bring(web: httpx.Client, content: bytes = b"", **fields: Any) -> httpx.Response:
    files = {"model": ("big.onnx", content or small_model())}
    return web.post(MODELS, data={"name": "big", **fields}, files=files)


def test_a_model_of_a_job_is_added_shown_listed_downloaded_and_removed(
    deployment: Deployment, web: httpx.Client, job: Job
) -> None:
    record = job()
    body = {"name": "faces v2", "job_id": record.job_id, "artifact": "bie", "decoder": "yunet", "labels": ["臉"]}
    added = web.post(MODELS, json=body)
    assert added.status_code == 201, added.text
    model = added.json()
    own = record.artifacts["out.bie"]
    assert (model["name"], model["format"], model["job_id"]) == ("faces v2", "bie", record.job_id)
    assert (model["decoder"], model["labels"], model["toolchain"]) == ("yunet", ["臉"], "host")
    assert (model["sha256"], model["size_bytes"]) == (own.sha256, own.size_bytes)
    assert model["twin_sha256"] == record.artifacts["out.onnx"].sha256
    assert model["inputs"] == [{"name": "x", "shape": [1, 3, 16, 16], "dtype": "float32"}]
    assert web.get(added.headers["location"]).json() == model == web.get(model["links"]["model"]).json()
    assert web.get(MODELS).json() == {"models": [model], "next_cursor": None}
    content = web.get(model["links"]["file"])
    assert hashlib.sha256(content.content).hexdigest() == own.sha256
    assert content.headers["content-disposition"].endswith(
        "; filename=\"faces v2.bie\"; filename*=UTF-8''faces%20v2.bie"
    )
    assert web.delete(NAMED, params={"name": "faces v2"}).status_code == 204
    assert code_of(web.get(NAMED, params={"name": "faces v2"})) == (404, "MODEL_NOT_FOUND")
    assert code_of(web.delete(NAMED, params={"name": "faces v2"})) == (404, "MODEL_NOT_FOUND")
    assert not list(store_of(deployment).list("blobs/"))


def test_a_part_of_a_file_can_be_had(web: httpx.Client) -> None:
    assert bring(web).status_code == 201
    whole, params = small_model(), {"name": "big"}
    some = web.get(FILE, params=params, headers={"Range": "bytes=10-19"})
    assert (some.status_code, some.content) == (206, whole[10:20])
    assert some.headers["content-range"] == f"bytes 10-19/{len(whole)}"
    assert web.get(FILE, params=params, headers={"Range": "bytes=-5"}).content == whole[-5:]
    assert web.get(FILE, params=params, headers={"Range": f"bytes={len(whole)}-"}).status_code == 416
    assert web.get(FILE, params=params, headers={"If-None-Match": some.headers["etag"]}).status_code == 304


def test_an_onnx_can_be_brought_with_its_fields_before_or_after_it(web: httpx.Client) -> None:
    labels = "臉\r\nmask\r\n\r\n"
    made = bring(web, decoder="classifier", labels=labels, preprocess='{"scale": 1, "color": "BGR"}').json()
    assert (made["format"], made["toolchain"], made["job_id"]) == ("onnx", "", None)
    assert (made["labels"], made["preprocess"]["color"]) == (["臉", "mask"], "BGR")
    assert made["inputs"][0]["shape"] == [1, 3, 16, 16]
    parts: list[tuple[str, Any]] = [
        ("model", ("m.onnx", small_model())),
        ("name", (None, "after")),
        ("decoder", (None, "auto")),
    ]
    late = web.post(MODELS, files=parts)
    assert (late.status_code, late.json()["name"]) == (201, "after"), late.text


def test_what_is_wrong_with_a_job_is_said(web: httpx.Client, job: Job) -> None:
    record, hers = job(), job("bob")

    def asked(**fields: Any) -> tuple[int, str]:
        return code_of(web.post(MODELS, json={"name": "m", "job_id": record.job_id, **fields}))

    assert asked(job_id="00000000-0000-4000-8000-000000000000") == (404, "JOB_NOT_FOUND")
    assert asked(job_id=hers.job_id) == (404, "JOB_NOT_FOUND")
    assert asked(job_id=job(status=Status.FAILED).job_id) == (404, "ARTIFACT_NOT_READY")
    assert asked(job_id=job(without="out.nef").job_id) == (404, "ARTIFACT_NOT_READY")
    assert asked(name="a/b") == (422, "MODEL_NAME_INVALID")
    assert asked(labels=["a", " "]) == (422, "MODEL_LABELS_INVALID")
    for fields in ({"artifact": "exe"}, {"decoder": "magic"}, {"labels": ["x"] * 1001}, {"name": ""}, {"more": 1}):
        assert asked(**fields) == (422, "BAD_INPUT")
    assert web.post(MODELS, json={"name": "m", "job_id": record.job_id}).status_code == 201
    assert asked() == (409, "MODEL_EXISTS")
    assert len(web.get(MODELS).json()["models"]) == 1


def test_what_is_wrong_with_a_file_is_said_and_nothing_is_kept(deployment: Deployment, web: httpx.Client) -> None:
    assert code_of(bring(web, b"GIF89a")) == (422, "MODEL_NOT_ONNX")
    assert code_of(bring(web, b"x" * (MOST_BYTES + 1))) == (413, "MODEL_TOO_LARGE")
    assert code_of(bring(web, name="a/b")) == (422, "MODEL_NAME_INVALID")
    assert code_of(bring(web, labels="a\n\nb")) == (422, "MODEL_LABELS_INVALID")
    assert code_of(bring(web, decoder="magic")) == (422, "BAD_INPUT")
    assert code_of(bring(web, preprocess='{"scale": "x"}')) == (422, "BAD_INPUT")
    assert code_of(bring(web, preprocess="{")) == (422, "BAD_INPUT")
    assert code_of(bring(web, unknown="1")) == (422, "BAD_INPUT")
    file = ("model", ("m.onnx", small_model()))
    assert code_of(web.post(MODELS, files=[file])) == (422, "BAD_INPUT")
    assert code_of(web.post(MODELS, files=[file, file])) == (400, "BAD_REQUEST")
    assert code_of(web.post(MODELS, files=[("name", (None, "m"))])) == (400, "BAD_REQUEST")
    assert code_of(web.post(MODELS, files=[("model", (None, "text"))])) == (400, "BAD_REQUEST")
    name = ("name", (None, "m"))
    assert code_of(web.post(MODELS, files=[name, name, file])) == (400, "BAD_REQUEST")
    assert code_of(web.post(MODELS, files=[("name", ("m.txt", "m")), file])) == (400, "BAD_REQUEST")
    assert code_of(bring(web, labels="a\n" * 2 * MAX_LABELS_TEXT + "a")) == (413, "TOO_LARGE")
    broken = {"Content-Type": "multipart/form-data; boundary=x"}
    assert code_of(web.post(MODELS, content=b"--x\r\nContent-Disp", headers=broken)) == (400, "BAD_REQUEST")
    assert code_of(web.post(MODELS, content=b"{", headers={"Content-Type": "application/json"})) == (400, "BAD_REQUEST")
    store = store_of(deployment)
    assert not list(store.list("uploads/")) and not list(store.list("blobs/"))
    assert web.get(MODELS).json()["models"] == []


def test_a_taken_name_is_said_before_the_file_is_read(web: httpx.Client) -> None:
    assert bring(web).status_code == 201
    assert code_of(bring(web, b"no onnx at all")) == (409, "MODEL_EXISTS")


def test_versions_are_added_tagged_shown_and_removed(web: httpx.Client) -> None:
    first, second = small_model(), vector_model()
    assert bring(web, first).json()["version"] == 1
    added = bring(web, second, new_version="true", note="with the new data")
    assert (added.status_code, added.json()["version"], added.json()["name"]) == (201, 2, "big")
    assert web.get(added.headers["location"]).json()["note"] == "with the new data"
    tag, of_big = "/api/v2/models/tags/stable", {"name": "big"}
    tagged = web.put(tag, params=of_big, json={"version": 1}).json()
    assert (tagged["name"], tagged["newest"], tagged["tags"]) == ("big", 2, {"stable": 1})
    assert [(version["version"], version["tags"]) for version in tagged["versions"]] == [(2, []), (1, ["stable"])]
    assert web.get("/api/v2/models/versions", params=of_big).json() == tagged
    for name, content in (("big", second), ("big@1", first), ("big@2", second), ("big@stable", first)):
        assert web.get(FILE, params={"name": name}).content == content
    assert code_of(web.delete(NAMED, params={"name": "big@1"})) == (409, "MODEL_IN_USE")
    assert web.delete(tag, params=of_big).status_code == 204
    assert code_of(web.delete(tag, params=of_big)) == (404, "MODEL_TAG_NOT_FOUND")
    assert web.delete(NAMED, params={"name": "big@1"}).status_code == 204
    assert web.get("/api/v2/models/versions", params=of_big).json()["versions"] == [
        {**added.json(), "tags": [], "links": tagged["versions"][0]["links"]}
    ]
    for body, status in (({"version": 9}, 404), ({"version": 0}, 422), ({}, 422)):
        assert web.put(tag, params=of_big, json=body).status_code == status
    assert code_of(web.put("/api/v2/models/tags/Bad", params=of_big, json={"version": 2})) == (422, "MODEL_TAG_INVALID")
    assert code_of(bring(web, first, name="big@7", new_version="true")) == (422, "MODEL_NAME_INVALID")


def test_a_list_is_searched_and_paged(web: httpx.Client) -> None:
    for name in ("a1", "a2", "b1"):
        assert bring(web, name=name).status_code == 201
    first = web.get(MODELS, params={"limit": 2}).json()
    rest = web.get(MODELS, params={"limit": 2, "cursor": first["next_cursor"]}).json()
    assert [model["name"] for page in (first, rest) for model in page["models"]] == ["b1", "a2", "a1"]
    assert rest["next_cursor"] is None
    assert [model["name"] for model in web.get(MODELS, params={"q": "A"}).json()["models"]] == ["a2", "a1"]
    for params in ({"limit": 0}, {"limit": 201}, {"q": "a\0"}, {"bogus": 1}):
        assert code_of(web.get(MODELS, params=params)) == (422, "BAD_INPUT")


def test_what_a_real_conversion_made_is_a_model(api: Api) -> None:
    done = api.convert(small_model(), pngs(3), name="real one")
    content = api.http.get(f"/jobs/{done['job_id']}/artifacts/out.nef").content
    model = api.http.post(MODELS, json={"name": "real", "job_id": done["job_id"]}).json()
    assert model["sha256"] == hashlib.sha256(content).hexdigest()
    assert (model["inputs"][0]["shape"], model["toolchain"]) == ([1, 3, 16, 16], "host")
    assert model["preprocess"] == done["options"]["preprocess"]
    assert model["twin_sha256"] == done["artifacts"]["out.onnx"]["sha256"]
    assert api.http.delete(f"/jobs/{done['job_id']}").status_code == 204
    assert api.http.get(model["links"]["file"]).content == content
    assert api.http.delete(model["links"]["model"]).status_code == 204
