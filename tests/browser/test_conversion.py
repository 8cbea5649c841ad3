"""The main path and its ends, as a user walks it: from files on the desktop to a NEF, or to a reason."""

from __future__ import annotations

import contextlib
import io
import re
import zipfile
from pathlib import Path

import onnx
import pytest
from playwright.sync_api import Error, Page, Route, expect

from app.conversion.pages.new import SAMPLE_MODEL, SAMPLE_PICTURES
from tests.harness.api import Api, has_ended, not_a_number_model, pngs, small_model
from tests.harness.browser.drag_and_drop import drop
from tests.harness.deployment import Deployment, submit_pending
from tests.harness.models import host as host_models
from tests.harness.models import small

JOB_PAGE = re.compile(r"/ui/jobs/([0-9a-f-]{36})$")


def drop_sample(page: Page, samples: Path = SAMPLE_PICTURES) -> None:
    page.goto("/ui/jobs/new")
    model, pictures = page.locator('[data-upload="model"]'), page.locator('[data-upload="images"]')
    drop(page.locator("[data-drop-all]"), SAMPLE_MODEL)
    expect(model).to_have_class(re.compile("is-filled"))
    expect(model).to_contain_text("Opset")
    drop(page.locator("[data-drop-all]"), samples)
    expect(pictures).to_have_class(re.compile("is-filled"))
    expect(pictures.locator(".thumbs svg").first).to_be_visible()


def convert(page: Page) -> str:
    """Press the button; the id of the job whose page opens."""
    page.get_by_role("button", name="Convert", exact=True).click()
    page.wait_for_url(JOB_PAGE)
    match = JOB_PAGE.search(page.url)
    assert match is not None
    return match[1]


def badge(page: Page, text: str) -> None:
    expect(page.locator(".title-line")).to_contain_text(text, timeout=100_000)


def test_the_sample_is_converted_by_drag_and_drop_to_a_downloaded_nef(page: Page, api: Api) -> None:
    drop_sample(page)
    page.get_by_label("Name").fill("digits")
    job_id = convert(page)
    badge(page, "Converted")
    with page.expect_download() as begun:
        page.get_by_role("link", name="out.nef", exact=True).first.click()
    assert begun.value.suggested_filename == "out.nef"
    data = begun.value.path().read_bytes()
    assert data == api.http.get(f"/jobs/{job_id}/artifacts/out.nef").content
    assert zipfile.is_zipfile(begun.value.path())
    expect(page.get_by_role("heading", level=1)).to_have_text("digits")


def test_a_dropped_folder_of_pictures_is_taken_whole(page: Page, api: Api, tmp_path: Path) -> None:
    folder = tmp_path / "pictures"
    with zipfile.ZipFile(SAMPLE_PICTURES) as packed:
        names = [name for name in packed.namelist() if name.endswith(".png")]
        packed.extractall(folder / "inner", names)
    (folder / "notes.txt").write_text("not a picture")
    drop_sample(page, folder)
    job = api.wait(convert(page), has_ended)
    assert job["status"] == "COMPLETED", job["error"]
    stored = api.http.get(f"/jobs/{job['job_id']}/artifacts/quant.zip").content
    with zipfile.ZipFile(io.BytesIO(stored)) as packed:
        assert len(packed.namelist()) == len(names) > 90


def test_a_model_and_the_file_of_its_weights_are_chosen_together(page: Page, api: Api, tmp_path: Path) -> None:
    graph, weights = small.split(tmp_path, host_models.convolutional())
    for name, data in (("a.onnx.data", weights), ("net.onnx", named(graph, "a.onnx.data")), ("0.png", pngs(1)[0][1])):
        (tmp_path / name).write_bytes(data)
    page.goto("/ui/jobs/new")
    page.locator("#file-model").set_input_files([tmp_path / "a.onnx.data", tmp_path / "net.onnx"])
    model = page.locator('[data-upload="model"]')
    expect(model).to_contain_text("net.onnx")
    expect(model).to_contain_text("Opset")
    page.locator("#file-images").set_input_files(tmp_path / "0.png")
    expect(page.locator('[data-upload="images"]')).to_have_class(re.compile("is-filled"))
    job = api.wait(convert(page), has_ended)
    assert job["status"] == "COMPLETED", job["error"]


def test_pictures_to_report_on_go_into_a_folder_of_the_same_zip(page: Page, api: Api, tmp_path: Path) -> None:
    (tmp_path / "net.onnx").write_bytes(small_model())
    for name, data in pngs(6):
        (tmp_path / name).write_bytes(data)
    files = [tmp_path / f"{number}.png" for number in range(6)]
    page.goto("/ui/jobs/new")
    images, report = page.locator('[data-upload="images"]'), page.locator("#file-report")
    page.locator("#file-model").set_input_files(tmp_path / "net.onnx")
    page.locator("#file-images").set_input_files(files[:4])
    expect(images).to_contain_text("4 samples")
    report.set_input_files(files[4:])
    expect(images).to_contain_text("6 samples")
    (tmp_path / "labels.csv").write_text("".join(("file,label\n", *(f"{number}.png,0\n" for number in range(6)))))
    chosen_anew = [*files[:3], tmp_path / "labels.csv"]
    page.locator("#file-images").set_input_files(chosen_anew)  # which forgets those to report on
    expect(images).to_contain_text("3 samples")
    expect(page.locator('[name="quantization.report_images"]')).to_have_value("")
    report.set_input_files(files[4:])
    expect(images).to_contain_text("5 samples")
    expect(page.locator('[name="quantization.report_images"]')).to_have_value("report")
    job = api.wait(convert(page), has_ended)
    assert job["status"] == "COMPLETED", job["error"]
    judgement = api.http.get(f"/jobs/{job['job_id']}/artifacts/bie.json").json()["judgement"]
    assert (judgement["is_own_set"], judgement["report"], judgement["calibrate"]) == (True, 2, 3)
    expect(page.get_by_text("On labeled pictures not used for calibration.")).to_be_visible()


def test_pictures_to_report_on_are_refused_beside_a_zip(page: Page, tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(pngs(1)[0][1])
    page.goto("/ui/jobs/new")
    page.locator("#file-images").set_input_files(SAMPLE_PICTURES)
    expect(page.locator('[data-upload="images"]')).to_have_class(re.compile("is-filled"))
    page.get_by_text("Report pictures", exact=True).click()
    page.locator("#file-report").set_input_files(tmp_path / "a.png")
    expect(page.locator("[data-report-problem]")).to_be_visible()
    expect(page.locator('[name="quantization.report_images"]')).to_have_value("")


def named(graph: bytes, place: str) -> bytes:
    """The graph, its weights in another file."""
    model = onnx.load_from_string(graph)
    for tensor in model.graph.initializer:
        for item in tensor.external_data:
            if item.key == "location":
                item.value = place
    return bytes(model.SerializeToString())


@pytest.mark.exhaustive  # the form becomes one without a browser
@pytest.mark.parametrize("models", [2, 5])
def test_models_times_two_presets_become_a_sweep_with_its_plot(
    page: Page, service: Deployment, tmp_path: Path, models: int
) -> None:
    for name in ("one", "two", "three", "four", "five")[:models]:
        (tmp_path / f"{name}.onnx").write_bytes(small_model())
    for name, data in pngs(4):
        (tmp_path / name).write_bytes(data)
    page.goto("/ui/jobs/new")
    drop(page.locator("[data-drop-all]"), *sorted(tmp_path.iterdir()))
    expect(page.locator(".further")).to_contain_text("two.onnx")
    expect(page.locator('[data-upload="images"]')).to_have_class(re.compile("is-filled"))
    page.get_by_label("Fast", exact=False).first.check()
    page.locator("#also-balanced").check()
    foot = page.locator("#new-foot")
    expect(foot).to_contain_text(f"{2 * models} conversions")
    foot.get_by_text("Do this from a program").click()
    expect(foot).to_contain_text("/sweeps")
    page.get_by_role("button", name="Convert", exact=True).click()
    page.wait_for_url(re.compile("/ui/sweeps/[0-9a-f]{32}$"))
    expect(page.locator("#sweep-live tbody tr")).to_have_count(2 * models)
    submit_pending(service)
    of_size = page.get_by_role("group", name="SNR against size").locator(".trade-point")
    expect(of_size).to_have_count(2 * models, timeout=100_000)
    expect(page.locator(".trade-point.is-front")).not_to_have_count(0)


def test_a_preset_that_is_ticked_while_the_options_are_on_their_way_stays(page: Page, tmp_path: Path) -> None:
    (tmp_path / "net.onnx").write_bytes(small_model())
    held: list[Route] = []
    page.goto("/ui/jobs/new")
    page.route("**/ui/jobs/new/options", lambda route: held.append(route))  # noqa: PLW0108  # it has to be a function
    with page.expect_request("**/ui/jobs/new/options"):
        page.locator("#file-model").set_input_files(tmp_path / "net.onnx")
    page.locator("#also-balanced").check()
    expect(page.locator("#new-foot")).to_contain_text("2 conversions")
    page.unroute("**/ui/jobs/new/options")
    for route in held:
        with contextlib.suppress(Error):  # of a request that the page has replaced
            route.continue_()
    expect(page.locator('[name="pre_for"]')).not_to_have_value("")
    expect(page.locator("#also-balanced")).to_be_checked()


def test_what_the_doctor_advises_is_applied_by_a_click_and_the_job_is_made_with_it(
    page: Page, api: Api, tmp_path: Path
) -> None:
    (tmp_path / "net.onnx").write_bytes(small_model())
    for name, data in pngs(4):
        (tmp_path / name).write_bytes(data)
    page.goto("/ui/jobs/new")
    drop(page.locator("[data-drop-all]"), *sorted(tmp_path.iterdir()))
    doctor = page.get_by_role("region", name="Calibration doctor")
    doctor.get_by_role("button", name="Use (x − 127) / 128").click()
    expect(doctor.locator("[data-apply]")).to_have_count(0)
    expect(doctor).to_contain_text("Few samples")
    job = api.wait(convert(page), has_ended)
    chosen = job["options"]["preprocess"]
    assert (job["status"], chosen["mean"], chosen["std"]) == ("COMPLETED", [127.0], [128.0])


def test_a_failing_model_shows_its_reason_a_hint_and_the_last_lines_of_its_log(page: Page, api: Api) -> None:
    job_id = api.start(not_a_number_model(), pngs(3))
    page.goto(f"/ui/jobs/{job_id}")
    badge(page, "Failed")
    error = api.wait(job_id, has_ended)["error"]
    failure = page.locator(".failure")
    expect(failure.get_by_role("heading", level=2)).to_have_text(f"Stage {error['step'].upper()} failed")
    expect(failure).to_contain_text(error["reason"])
    expect(failure).to_contain_text(error["hint"])
    lines = failure.locator("pre").inner_text().splitlines()
    log = api.http.get(f"/jobs/{job_id}/logs/{error['step']}").text.splitlines()
    new = [line for line in log if error["reason"] not in line and error["hint"] not in line]
    assert lines and lines == new[-len(lines) :]
    expect(failure.get_by_role("link", name="Convert again with changes")).to_be_visible()
