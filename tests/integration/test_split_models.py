"""A model whose weights lie in a second file, as PyTorch exports it, on every way in."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import onnx
import pytest

from app.kit.cli.command import Exit
from tests.harness.api import Api, Named, has_ended, pngs, zipped
from tests.harness.command_line import typed
from tests.harness.deployment import Deployment
from tests.harness.models import host as host_models
from tests.harness.models import small

Split = tuple[bytes, bytes]
PLACE = "model.onnx.data"


@pytest.fixture
def split(tmp_path: Path) -> Split:
    return small.split(tmp_path, host_models.convolutional())


def uploaded(api: Api, *files: tuple[str, tuple[str, bytes]]) -> httpx.Response:
    return api.http.post("/uploads", files=list(files))


def converted(api: Api, stored: dict[str, Any]) -> dict[str, Any]:
    images = api.upload(images=pngs(3))["quant_key"]
    answer = api.http.post("/jobs", json={"model_key": stored["model_key"], "quant_key": images})
    assert answer.status_code == 201, answer.text
    return api.wait(answer.json()["job_id"], has_ended)


@pytest.mark.parametrize("is_last", [True, False])
def test_two_files_are_one_model(api: Api, split: Split, is_last: bool) -> None:
    graph, weights = split
    files = [("model", ("net.onnx", graph)), ("weights", (PLACE, weights))]
    answer = uploaded(api, *(files if is_last else files[::-1]))
    assert answer.status_code == 201, answer.text
    [file] = answer.json()["files"]
    assert (file["field"], file["name"]) == ("model", "net.onnx") and file["size_bytes"] > len(weights)
    assert converted(api, answer.json())["status"] == "COMPLETED"


def test_a_zip_of_both_is_one_model(api: Api, split: Split) -> None:
    packed = zipped([("export/net.onnx", split[0]), (f"export/{PLACE}", split[1])])
    answer = uploaded(api, ("model", ("net.zip", packed)))
    assert converted(api, answer.json())["status"] == "COMPLETED"


def test_a_zip_that_was_put_straight_to_the_store_is_one_model(api: Api, split: Split) -> None:
    links = api.http.post("/uploads/presign", json={"images": False}).json()
    packed = zipped([("net.onnx", split[0]), (PLACE, split[1])])
    assert httpx.put(links["model"]["url"], content=packed).status_code in (200, 201, 204)
    assert converted(api, {"model_key": links["model"]["key"]})["status"] == "COMPLETED"


def test_weights_that_are_missing_or_hostile_are_refused_at_the_upload(api: Api, split: Split) -> None:
    graph, weights = split
    missing = uploaded(api, ("model", ("net.onnx", graph)), ("weights", ("other.data", weights)))
    assert missing.status_code == 422 and PLACE in missing.json()["error"]["message"]
    model = onnx.load_from_string(graph)
    for item in model.graph.initializer[0].external_data:
        if item.key == "location":
            item.value = "../../../../etc/passwd"
    hostile = uploaded(
        api,
        ("model", ("net.onnx", model.SerializeToString())),
        ("weights", ("passwd", weights)),
    )
    assert hostile.status_code == 422 and "never read" in hostile.json()["error"]["message"]
    escaping = uploaded(api, ("model", ("net.zip", zipped([("net.onnx", graph), (f"../{PLACE}", weights)]))))
    assert escaping.status_code == 422 and "outside the folder" in escaping.json()["error"]["message"]


def test_a_form_without_script_takes_both_files(api: Api, service: Deployment, split: Split) -> None:
    files = [("model", (PLACE, split[1])), ("model", ("net.onnx", split[0]))]
    files += [("images", file) for file in pngs(3)]
    answer = httpx.post(f"{service.url}/ui/jobs/new", files=files, headers={"Origin": service.url}, timeout=120)
    assert answer.status_code == 303
    assert api.wait(answer.headers["location"].rpartition("/")[2], has_ended)["status"] == "COMPLETED"


def written(folder: Path, files: Named) -> Path:
    folder.mkdir()
    for name, data in files:
        (folder / name).write_bytes(data)
    return folder


def test_the_command_line_sends_the_file_that_lies_beside(
    service: Deployment,
    split: Split,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    here = written(tmp_path / "here", [("net.onnx", split[0]), (PLACE, split[1])])
    files = here / "net.onnx", written(tmp_path / "images", pngs(3))
    command = ["--url", service.url, "convert", *files, "-o", tmp_path / "out", "--json"]
    assert typed(monkeypatch, *command) == Exit.OK
    assert json.loads(capsys.readouterr().out)["job"]["status"] == "COMPLETED"
    (here / PLACE).unlink()
    assert typed(monkeypatch, *command) == Exit.BAD_INPUT
    assert "lay them beside the model" in capsys.readouterr().err


# --- a model by name ---
MODELS, NEW_MODEL = "/api/v2/models", "/ui/models/new"


@pytest.fixture
def name(api: Api) -> Iterator[str]:
    """Of a model that is not there afterwards."""
    name = f"split-{uuid4()}"
    yield name
    assert api.http.delete(f"{MODELS}/named", params={"name": name}).status_code == 204


def assert_is_whole(api: Api, name: str, split: Split) -> None:
    model = onnx.load_from_string(api.http.get(f"{MODELS}/file", params={"name": name}).content)
    assert len(model.SerializeToString()) > len(split[1])
    assert not [each.name for each in model.graph.initializer if each.external_data]


@pytest.mark.parametrize("order", [("model", "weights", "name"), ("weights", "name", "model")])
def test_two_files_are_one_model_by_name(api: Api, split: Split, name: str, order: tuple[str, ...]) -> None:
    parts: dict[str, Any] = {"model": ("net.onnx", split[0]), "weights": (PLACE, split[1]), "name": (None, name)}
    answer = api.http.post(MODELS, files=[(part, parts[part]) for part in order])
    assert answer.status_code == 201, answer.text
    assert_is_whole(api, name, split)


def test_a_model_by_name_is_refused_without_its_weights_and_weights_without_it(api: Api, split: Split) -> None:
    named, model, weights = ("name", (None, "m")), ("model", ("net.onnx", split[0])), ("weights", (PLACE, split[1]))
    lacking = api.http.post(MODELS, files=[named, model])
    assert lacking.status_code == 422 and PLACE in lacking.json()["error"]["message"]
    alone = api.http.post(MODELS, files=[named, weights])
    assert alone.status_code == 400 and "without their model" in alone.json()["error"]["message"]
    assert api.http.get(MODELS, params={"q": "m"}).json()["models"] == []


def test_the_page_of_a_new_model_takes_both_files(api: Api, service: Deployment, split: Split, name: str) -> None:
    files = [("model", (PLACE, split[1])), ("model", ("net.onnx", split[0]))]
    fields, headers = {"way": "upload", "name": name}, {"Origin": service.url}
    answer = httpx.post(f"{service.url}{NEW_MODEL}", data=fields, files=files, headers=headers, timeout=120)
    assert answer.status_code == 303, answer.text
    assert_is_whole(api, name, split)


def test_the_command_line_brings_a_model_with_the_file_that_lies_beside(
    api: Api, service: Deployment, split: Split, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = written(tmp_path / "here", [("net.onnx", split[0]), (PLACE, split[1])])
    command = ["--url", service.url, "models", "add", name, "--file", here / "net.onnx"]
    assert typed(monkeypatch, *command) == Exit.OK
    assert_is_whole(api, name, split)
