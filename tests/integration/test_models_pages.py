"""The pages of models as a browser without JavaScript uses them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from html import unescape

import httpx
import onnx
import pytest

from app.bootstrap.container import assemble
from app.conversion.model import JobRecord, Status
from app.conversion.options import Chip, Options, ToolchainName
from app.inference.prediction import ENCLOSED_DECODER, MOST_DECODER_SOURCE
from tests.harness.api import small_model, vector_model
from tests.harness.conversion_jobs import finished_job
from tests.harness.deployment import Deployment
from tests.harness.users import make_users, person

LIST, NEW, NAMED, DELETE = "/ui/models", "/ui/models/new", "/ui/models/named", "/ui/models/delete"
API = "/api/v2/models"
SOURCE = "def decode(outputs, size, floor):\n    return [], [], []\n"
Job = Callable[..., JobRecord]


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    with Deployment(tmp_path_factory.mktemp("models"), accounts="true", max_model_bytes="100000") as deployment:
        deployment.web()
        make_users(deployment, "alice", "bob")
        yield deployment


@pytest.fixture(scope="module")
def job(deployment: Deployment) -> Iterator[Job]:
    container = assemble(deployment.settings())
    yield lambda owner="alice", *given, **fields: finished_job(container, owner, *given, **fields)
    container.close()


@pytest.fixture(scope="module")
def signed_in(deployment: Deployment) -> Iterator[httpx.Client]:
    with person(deployment, "alice").browser() as client:
        yield client


@pytest.fixture
def web(signed_in: httpx.Client) -> httpx.Client:
    """As alice, who has no models."""
    for model in signed_in.get(API).json()["models"]:
        assert signed_in.delete(f"{API}/named", params={"name": model["name"]}).status_code == 204
    return signed_in


def page(web: httpx.Client, path: str, status: int = 200, **params: str) -> str:
    answer = web.get(path, params=params or None)
    assert answer.status_code == status, answer.text
    return unescape(answer.text)


def send(web: httpx.Client, **fields: str) -> httpx.Response:
    return web.post(NEW, data={"way": "job", "name": "m", **fields})


def bring(web: httpx.Client, content: bytes, **fields: str) -> httpx.Response:
    return web.post(NEW, data={"way": "upload", **fields}, files={"model": ("big.onnx", content)})


def test_who_has_none_is_told_what_to_do(web: httpx.Client) -> None:
    text = page(web, LIST)
    assert "No models yet" in text and f'href="{NEW}"' in text and 'href="/ui/jobs/new"' in text
    assert 'aria-current="page">Models' in text


def test_a_completed_job_offers_itself_and_becomes_a_model(web: httpx.Client, job: Job) -> None:
    kneron = Options(toolchain=ToolchainName.KNERON, platform=Chip.KL720)
    record, running = job("alice", "faces / new", options=kneron), job("alice", status=Status.FAILED)
    assert f'href="{NEW}?job={record.job_id}"' in page(web, f"/ui/jobs/{record.job_id}")
    assert "models/new" not in page(web, f"/ui/jobs/{running.job_id}")
    form = page(web, NEW, job=record.job_id)
    assert f'<option value="{record.job_id}" selected>' in form and 'value="faces - new"' in form
    assert running.job_id not in form
    answer = send(web, job_id=record.job_id, artifact="nef", decoder="ultraface", labels="face\r\nmask")
    assert answer.status_code == 303
    shown = page(web, answer.headers["location"])
    assert "Saved." in shown and "Kneron NEF" in shown and "ONNX twin" in shown and "UltraFace" in shown
    assert record.artifacts["out.nef"].sha256 in shown and record.artifacts["out.onnx"].sha256 in shown
    assert f'href="/ui/jobs/{record.job_id}">faces / new</a>' in shown
    assert "1 × 3 × 16 × 16" in shown and "<li>mask</li>" in shown
    listed = page(web, LIST)
    assert "Kneron NEF" in listed and "UltraFace" in listed and f'href="/ui/jobs/{record.job_id}"' in listed


def test_a_model_says_when_its_job_is_forgotten(web: httpx.Client, job: Job) -> None:
    record = job()
    assert send(web, job_id=record.job_id, artifact="onnx").status_code == 303
    assert web.delete(f"/jobs/{record.job_id}").status_code == 204
    assert "The job is forgotten; the model stays." in page(web, NAMED, name="m")


@pytest.mark.parametrize("made", ["nef", "bie", "onnx"])
def test_each_kind_of_the_host_toolchain_is_said_by_its_name(web: httpx.Client, job: Job, made: str) -> None:
    assert send(web, job_id=job().job_id, artifact=made).status_code == 303
    assert {"nef": "Host NEF", "bie": ">BIE<", "onnx": ">ONNX<"}[made] in page(web, LIST)


def test_a_file_is_uploaded_by_the_form(web: httpx.Client) -> None:
    answer = bring(web, small_model(), name="", decoder="auto", labels="")
    assert answer.status_code == 303
    shown = page(web, answer.headers["location"])
    assert "<h1>big</h1>" in shown and "uploaded" in shown
    assert "The usual preprocessing of its decoder's family" in shown
    assert web.get(f"{API}/file", params={"name": "big"}).content == small_model()


def test_a_decoder_is_uploaded_on_the_page_of_its_model(web: httpx.Client, job: Job) -> None:
    """It is in the file of the next version, whose other facts are those of the version before."""
    added = web.post(API, data={"name": "plates", "labels": "a\nb"}, files={"model": ("m.onnx", small_model())})
    assert added.status_code == 201, added.text
    page = web.get(NAMED, params={"name": "plates"}).text
    action = unescape(page.split('action="/ui/models/decoder', 1)[1].split('"', 1)[0])
    fields = {"data": {"name": "plates@1", "note": "by rows"}, "files": {"decoder": ("plates.py", SOURCE.encode())}}
    for _ in range(2):  # a browser that sends it twice
        sent = web.post(f"/ui/models/decoder{action}", **fields)
        assert sent.status_code == 303 and "plates%402" in sent.headers["location"], sent.text
    second = web.get(f"{API}/named", params={"name": "plates"}).json()
    assert (second["version"], second["note"], second["decoder"]) == (2, "by rows", "enclosed")
    assert second["labels"] == ["a", "b"]
    file = onnx.load_from_string(web.get(f"{API}/file", params={"name": "plates"}).content)
    assert {entry.key: entry.value for entry in file.metadata_props}[ENCLOSED_DECODER] == SOURCE
    assert "In the model's file" in unescape(web.get(NAMED, params={"name": "plates"}).text)


def test_what_is_no_decoder_makes_no_version(web: httpx.Client, job: Job) -> None:
    web.post(API, data={"name": "plates"}, files={"model": ("m.onnx", small_model())}).raise_for_status()
    for source, message in (
        (b"def decode(:", "the decoder is not valid Python"),
        (b"def other(): ...", "the decoder has no function decode"),
        (b"x = 1 #" + b"x" * MOST_DECODER_SOURCE, "longer than 256 KiB"),
    ):
        sent = web.post("/ui/models/decoder", data={"name": "plates"}, files={"decoder": ("d.py", source)})
        assert sent.status_code == 400 and message in unescape(sent.text), sent.text
    unsent = web.post("/ui/models/decoder", data={"name": "plates"}, files={"model": ("d.py", b"")})
    assert unsent.status_code == 422 and "No file was chosen." in unsent.text
    compiled = {"name": "nef", "job_id": job("alice").job_id, "artifact": "nef"}
    web.post(API, json=compiled).raise_for_status()
    refused = web.post(f"{API}/decoder", params={"name": "nef"}, json={"source": SOURCE})
    assert refused.status_code == 422 and "The model 'nef' is no ONNX." in unescape(refused.text)
    assert "Decoder of your own" not in web.get(NAMED, params={"name": "nef"}).text
    assert [each["version"] for each in web.get(f"{API}/versions", params={"name": "plates"}).json()["versions"]] == [1]


def test_what_is_wrong_is_said_beside_the_form_and_what_was_typed_is_kept(web: httpx.Client, job: Job) -> None:
    record = job()
    typed = {"job_id": record.job_id, "artifact": "bie", "decoder": "yunet", "labels": "cat\r\ndog"}
    refused = send(web, name="a/b", **typed)
    text = unescape(refused.text)
    assert refused.status_code == 422 and "cannot be the name of a model" in text
    assert 'value="a/b"' in text and "cat\r\ndog" in text and 'value="bie" checked' in text
    assert '<option value="yunet" selected>' in text and f'<option value="{record.job_id}" selected>' in text
    assert send(web, **typed).status_code == 303
    assert send(web, **typed).status_code == 409
    assert send(web, name="n", job_id="no-job").status_code == 404
    assert send(web, name="n", job_id=job("bob").job_id).status_code == 404
    assert send(web, name="n", job_id=job(status=Status.FAILED).job_id).status_code == 404
    assert send(web, name="n", job_id=record.job_id, decoder="magic").status_code == 422
    assert send(web, name="n", job_id=record.job_id, labels="a\n\nb").status_code == 422


def test_a_file_that_will_not_do_is_said_beside_its_form(web: httpx.Client) -> None:
    refused = bring(web, b"GIF89a", name="mine")
    assert refused.status_code == 422 and 'value="mine"' in refused.text and 'role="alert"' in refused.text
    assert bring(web, b"x" * 100_001).status_code == 413
    assert bring(web, b"x" * 2_000_000).status_code == 413
    assert web.post(NEW, data={"way": "upload", "name": "m"}).status_code == 422
    assert "No models yet" in page(web, LIST)


def test_a_job_that_has_not_completed_is_said_to_be_no_model_yet(web: httpx.Client, job: Job) -> None:
    job()
    failed = job(status=Status.FAILED)
    assert f"Job {failed.job_id} is FAILED" in page(web, NEW, job=failed.job_id)
    page(web, NEW, 404, job=job("bob").job_id)
    page(web, NEW, 404, job="no-job")


def test_names_are_searched_and_paged(web: httpx.Client) -> None:
    for number in range(51):
        assert bring(web, small_model(), name=f"m & {number:02}").status_code == 303
    first = page(web, LIST)
    older = first.partition('rel="next" href="')[2].partition('"')[0]
    assert "m & 50" in first and "m & 00" not in first
    assert "m & 00" in page(web, older) and "Newest" in page(web, older)
    listed = page(web, LIST, q="& 07")
    assert "m & 07" in listed and "m & 08" not in listed
    assert "No model matches" in page(web, LIST, q="nothing like it")
    assert "<h1>m & 07</h1>" in page(web, NAMED, name="m & 07")


def test_to_delete_is_asked_first_and_refused_there_while_something_uses_it(web: httpx.Client) -> None:
    bring(web, small_model(), name="m")
    question = page(web, DELETE, name="m")
    assert "Nothing uses it now." in question and "Delete the model</button>" in question
    assert web.post(f"{LIST}/tag", data={"name": "m", "tag": "stable", "version": "1"}).status_code == 303
    bring(web, vector_model(), name="m", new_version="on")
    refused = page(web, DELETE, name="m@1")
    assert "stable" in refused and "Delete the model</button>" not in refused and ">Back</a>" in refused
    assert "Delete the model</button>" in page(web, DELETE, name="m@2")
    assert page(web, NAMED, name="m")
    answer = web.post(DELETE, data={"name": "m"})
    assert (answer.status_code, answer.headers["location"]) == (303, f"{LIST}?note=deleted")
    assert "The model was deleted." in page(web, answer.headers["location"])
    page(web, NAMED, 404, name="m")
    page(web, DELETE, 404, name="m")
    assert web.post(DELETE, data={"name": "m"}).status_code == 404


def test_versions_are_added_tagged_and_deleted_on_the_page_of_their_model(web: httpx.Client) -> None:
    bring(web, small_model(), name="big")
    assert f'href="{NEW}?way=upload&name=big"' in page(web, NAMED, name="big")
    form = page(web, NEW, way="upload", name="big")
    assert form.count('value="big"') == 2 and form.count('name="new_version" checked') == 2
    sent = bring(web, vector_model(), name="big", new_version="on", note="with the new data")
    assert (sent.status_code, sent.headers["location"]) == (303, f"{NAMED}?name=big%402&note=added")
    shown = page(web, NAMED, name="big")
    assert "version 2" in shown and "with the new data" in shown and "This is not the newest version." not in shown
    assert "This is not the newest version." in page(web, NAMED, name="big@1")
    tagged = web.post(f"{LIST}/tag", data={"name": "big", "tag": "stable", "version": "1"})
    assert (tagged.status_code, tagged.headers["location"]) == (303, f"{NAMED}?name=big&note=tagged#versions")
    assert "Remove the tag stable" in page(web, NAMED, name="big", note="tagged")
    assert "Delete the model big@1?" in page(web, DELETE, name="big@1")
    assert web.post(DELETE, data={"name": "big@1"}).status_code == 409
    assert web.post(f"{LIST}/untag", data={"name": "big", "tag": "stable"}).status_code == 303
    assert "All 2 versions are deleted." in page(web, DELETE, name="big")
    assert web.post(DELETE, data={"name": "big@1"}).status_code == 303
    assert "Delete all versions" not in page(web, NAMED, name="big")
