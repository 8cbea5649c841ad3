"""Data homes in a real browser: files are dropped, sent, brought back and converted, with scripts and without."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import OpenContext
from tests.harness.api import pngs, small_model
from tests.harness.browser.complaints import Watch
from tests.harness.browser.drag_and_drop import drop
from tests.harness.deployment import Deployment
from tests.harness.variants import exhaustive

FOLDER = "/ui/data/files/datasets"


@pytest.fixture
def home(service: Deployment) -> Path:
    return service.settings().homes / "users" / "local"


@pytest.mark.parametrize("has_script", [True, *exhaustive(False)])
def test_files_are_sent_and_deleted_and_brought_back(
    open_context: OpenContext, home: Path, tmp_path: Path, has_script: bool
) -> None:
    name = f"sent-{has_script}".lower()
    for ending in ("csv", "txt"):
        (tmp_path / f"{name}.{ending}").write_text(ending * 1000)
    page = open_context(java_script_enabled=has_script).new_page()
    page.goto(FOLDER)
    page.get_by_label("Upload files").set_input_files([tmp_path / f"{name}.csv", tmp_path / f"{name}.txt"])
    page.get_by_role("button", name="Upload", exact=True).click()
    expect(page.get_by_role("status").first).to_contain_text("2 files were uploaded")
    assert (home / f"datasets/{name}.csv").read_text() == "csv" * 1000
    page.get_by_role("button", name=f"Delete {name}.csv").click()
    expect(page.get_by_role("link", name=f"{name}.csv", exact=True)).to_have_count(0)
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_role("link", name=f"{name}.csv", exact=True)).to_have_count(1)
    assert (home / f"datasets/{name}.csv").read_text() == "csv" * 1000


def test_a_dropped_folder_arrives_with_its_folders(open_context: OpenContext, home: Path, tmp_path: Path) -> None:
    (tmp_path / "trip/day-1").mkdir(parents=True)
    for inner in ("trip/readme", "trip/day-1/a.txt", "trip/day-1/b.txt"):
        (tmp_path / inner).write_text(inner)
    page = open_context().new_page()
    page.goto(FOLDER)
    drop(page.locator("[data-uploader]"), tmp_path / "trip")
    expect(page.get_by_role("status").first).to_contain_text("3 files were uploaded")
    for inner in ("trip/readme", "trip/day-1/a.txt", "trip/day-1/b.txt"):
        assert (home / "datasets" / inner).read_text() == inner


def test_what_is_there_already_is_told_and_the_rest_goes_on_after_it_was_allowed(
    open_context: OpenContext, watches: list[Watch], home: Path, tmp_path: Path
) -> None:
    page = open_context().new_page()
    page.goto(FOLDER)
    (home / "datasets/taken.csv").write_text("old")
    (tmp_path / "taken.csv").write_text("new")
    page.get_by_label("Upload files").set_input_files(tmp_path / "taken.csv")
    page.get_by_role("button", name="Upload", exact=True).click()
    expect(page.locator("[data-told]")).to_contain_text("There is something at")
    assert (home / "datasets/taken.csv").read_text() == "old"
    page.get_by_label("Replace files of the same name").check()
    page.get_by_role("button", name="Try again").click()
    watches[0].forgive(r"status of 412")
    expect(page.get_by_role("status").first).to_contain_text("1 file was uploaded")
    assert (home / "datasets/taken.csv").read_text() == "new"


@pytest.mark.parametrize("has_script", [True, *exhaustive(False)])
def test_a_model_and_a_folder_of_pictures_come_to_the_form_of_a_new_conversion(
    open_context: OpenContext, home: Path, has_script: bool
) -> None:
    page = open_context(java_script_enabled=has_script).new_page()
    page.goto(FOLDER)
    (home / "models/from-home.onnx").write_bytes(small_model())
    (home / "datasets/pictures").mkdir(exist_ok=True)
    for name, data in pngs(4):
        (home / "datasets/pictures" / name).write_bytes(data)
    page.goto("/ui/data/files/models/from-home.onnx")
    page.get_by_role("link", name="Convert this").click()
    page.get_by_role("link", name="pictures/").click()
    page.get_by_role("button", name="Use this folder").click()
    page.wait_for_url("**/ui/jobs/new?**")
    expect(page.locator("#model-area")).to_contain_text("from-home.onnx")
    expect(page.locator("#images-area")).to_contain_text("4 samples")
    expect(page.get_by_label("Name")).to_have_value("from-home")
