"""Inputs of a conversion taken out of a data home: what a folder gives, and the limits of every upload."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import onnx
import pytest
from pydantic import SecretStr

from app.conversion import object_keys
from app.conversion.errors import ModelTooLarge, NoSamples, SamplesTooLarge
from app.conversion.service import home_inputs
from app.conversion.service.home_inputs import InputPath, TooManySamples, copy_inputs
from app.conversion.service.uploads import Uploads
from app.homes.errors import FileMissing, PathRefused
from app.homes.files import HomeFiles
from app.homes.model import HomesOptions
from app.kit.errors import BadInput, TooLarge
from app.kit.objects import FilesystemOptions, open_store
from app.kit.sandbox.runner import Sandbox
from app.settings import Settings
from tests.harness.models import small

MODEL, PICTURE = b"model", b"picture"


@pytest.fixture
def uploads(tmp_path: Path, sandbox: Sandbox) -> Uploads:
    settings = Settings(
        data_dir=tmp_path, secret_key=SecretStr("s"), max_model_bytes=1000, max_images_bytes=2000, max_images=4
    )
    objects = open_store(FilesystemOptions(tmp_path / "objects", public_url="http://x", secret="s"))
    return Uploads(settings, objects, sandbox)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    files = HomeFiles(HomesOptions(tmp_path / "homes"))
    files.create("alice")
    folder = tmp_path / "homes/users/alice"
    (folder / "models/net.onnx").write_bytes(MODEL)
    (folder / "datasets/set/inner").mkdir(parents=True)
    return folder


@pytest.fixture
def at(tmp_path: Path, home: Path) -> InputPath:
    return InputPath(HomeFiles(HomesOptions(tmp_path / "homes")).home("alice"), "datasets/set")


def model(at: InputPath) -> InputPath:
    return InputPath(at.tree, "models/net.onnx")


def packed(uploads: Uploads, key: str) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(b"".join(uploads.objects.read(key)))) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def nothing_is_kept(uploads: Uploads) -> bool:
    return not list(uploads.objects.list("uploads/"))


def test_a_folder_gives_its_samples_wherever_they_lie_and_nothing_else(
    uploads: Uploads, home: Path, at: InputPath
) -> None:
    folder = home / "datasets/set"
    for name in ("a.png", "inner/a.png", "B.JPG", "labels.csv", "notes.txt", ".hidden.png"):
        (folder / name).write_bytes(name.encode())
    (folder / "link.png").symlink_to(folder / "a.png")
    (folder / "circle").symlink_to(folder)
    taken = copy_inputs(uploads, "alice", model(at), at)
    assert b"".join(uploads.objects.read(taken.model_key)) == MODEL
    assert sorted(packed(uploads, taken.quant_key).values()) == [b"B.JPG", b"a.png", b"inner/a.png", b"labels.csv"]
    assert uploads.owner(object_keys.source_of(taken.model_key)[1]) == "alice"  # type: ignore[index]
    assert (taken.model_name, taken.quant_name) == ("net.onnx", "set")


def test_more_samples_than_a_job_may_have_are_refused_and_nothing_is_kept(
    uploads: Uploads, home: Path, at: InputPath
) -> None:
    for number in range(5):
        (home / f"datasets/set/{number}.png").write_bytes(PICTURE)
    with pytest.raises(TooManySamples, match="more than the 4"):
        copy_inputs(uploads, "alice", model(at), at)
    assert nothing_is_kept(uploads)


def test_samples_and_models_have_the_limits_of_every_upload(uploads: Uploads, home: Path, at: InputPath) -> None:
    (home / "datasets/set/a.png").write_bytes(b"x" * 3000)
    with pytest.raises(SamplesTooLarge):
        copy_inputs(uploads, "alice", model(at), at)
    (home / "models/net.onnx").write_bytes(b"x" * 1001)
    with pytest.raises(ModelTooLarge):
        copy_inputs(uploads, "alice", model(at), None)
    assert nothing_is_kept(uploads)


def test_a_hostile_picture_does_not_fill_the_memory_of_the_web(
    uploads: Uploads, home: Path, at: InputPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(home_inputs, "MAKE_PICTURE", "tests.harness.hostile_targets:answer_hugely")
    (home / "datasets/set/a.png").write_bytes(PICTURE)
    with pytest.raises(BadInput, match="cannot be shown"):
        home_inputs.small_picture(uploads.intake, at.tree, "datasets/set/a.png")


def test_a_picture_too_large_to_be_shown_is_not_opened(
    uploads: Uploads, home: Path, at: InputPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(home_inputs, "MAKE_PICTURE", "nothing:runs")
    with (home / "datasets/set/a.png").open("wb") as file:
        file.truncate(home_inputs.PICTURE_BYTES_MAX + 1)
    with pytest.raises(TooLarge, match=r"Pictures above \d+ MiB are not shown"):
        home_inputs.small_picture(uploads.intake, at.tree, "datasets/set/a.png")


def test_what_is_not_there_or_leads_out_is_not_taken(uploads: Uploads, home: Path, at: InputPath) -> None:
    (home / "models/out.onnx").symlink_to("/etc/passwd")
    for name, error in (("none.onnx", FileMissing), ("out.onnx", PathRefused)):
        with pytest.raises(error):
            copy_inputs(uploads, "alice", InputPath(at.tree, f"models/{name}"), at)
    with pytest.raises(NoSamples):
        copy_inputs(uploads, "alice", model(at), at)
    assert nothing_is_kept(uploads)


def test_weights_that_lie_beside_a_model_go_with_it(
    tmp_path: Path, sandbox: Sandbox, at: InputPath, home: Path
) -> None:
    objects = open_store(FilesystemOptions(tmp_path / "objects", public_url="http://x", secret="s"))
    uploads = Uploads(Settings(data_dir=tmp_path, secret_key=SecretStr("s")), objects, sandbox)
    graph, weights = small.split(tmp_path)
    (home / "models/net.onnx").write_bytes(graph)
    (home / "models/notes.txt").write_text("of mine")
    without = copy_inputs(uploads, "alice", model(at), None)
    assert b"".join(objects.read(without.model_key)) == graph
    (home / "models/model.onnx.data").write_bytes(weights)
    taken = copy_inputs(uploads, "alice", model(at), None)
    merged = onnx.load_from_string(b"".join(objects.read(taken.model_key)))
    assert merged.graph.initializer[0].raw_data == small.conv().graph.initializer[0].raw_data
