"""A calibration from the upload to the service, and who sees it."""

from __future__ import annotations

import html
import re
from pathlib import Path

import numpy as np
import pytest

from app.joint_inference import calibration_upload
from app.joint_inference.calibration.service import Calibrations
from app.kit.clock import now
from tests.harness.joint.pages import USER, Browser
from tests.harness.page_text import polled, text_of
from tests.harness.users import OURS


@pytest.fixture
def calibrations(browser: Browser, shared_data: Path) -> Calibrations:
    for name, file in (("small", "digits_small"), ("big", "digits_big")):
        chunks = [(shared_data / f"models/{file}.onnx").read_bytes()]
        browser.container.models.add_upload(USER, name, chunks, now=now())
    browser.make("digits")
    return browser.container.calibrations


def begun(browser: Browser, data: bytes, name: str = "set.npz") -> str:
    answer = browser.web.post("/ui/services/default/digits/calibrate", files={"samples": (name, data)}, headers=OURS)
    assert answer.status_code == 303, text_of(answer)
    return str(answer.headers["location"]).rpartition("/")[2]


@pytest.mark.slow
def test_a_calibration_from_the_upload_to_the_service(
    browser: Browser, calibrations: Calibrations, shared_data: Path
) -> None:
    made = begun(browser, (shared_data / "images/digits_test.npz").read_bytes())
    waiting = browser.get(f"/ui/calibrations/{made}")
    assert "It waits for a worker" in text_of(waiting)
    (again,) = polled(waiting)
    assert browser.get(again).status_code == 204
    calibrations.run(made, now=now())
    assert browser.get(again).headers["hx-refresh"] == "true"
    page = browser.get(f"/ui/calibrations/{made}?budget=50")
    text = text_of(page)
    assert "899 samples" in text and "edge alone 82.9 %" in text and "cloud alone 96.9 %" in text
    assert "chosen on one half of the samples" in text
    assert "The best with at most 50 % uploaded" in text and "97." in text
    for kind in ("front", "edge-only", "cloud-only", "chance"):
        assert f"line-{kind}" in page.text
    none_up = text_of(browser.get(f"/ui/calibrations/{made}/pick?budget=0"))
    assert "Uploaded 0.0 %" in none_up and "82.89 %" in none_up
    assert re.search(r"On other samples 84\.86 % 8\d\.\d % to 8\d\.\d %", none_up)
    ask = re.search(r'class="btn btn-primary" href="([^"]+/apply\?setting=(\d+))"', page.text)
    assert ask is not None
    before = browser.spec("digits")
    confirm = browser.get(html.unescape(ask[1]))
    assert "Use this setting?" in text_of(confirm) and "IBT" in text_of(confirm) and browser.spec("digits") == before
    applied = browser.send(f"/ui/calibrations/{made}/apply", {"setting": ask[2]})
    assert applied.status_code == 303
    setting = calibrations.sweep(USER, made).settings[int(ask[2])]
    algorithm = browser.spec("digits")["edgeWorker"]["hardExampleAlgorithm"]
    assert algorithm["name"] == setting.algorithm
    assert {pair["key"]: pair["value"] for pair in algorithm["parameters"]} == setting.parameters
    assert "The service now has this setting" in text_of(browser.get(applied.headers["location"]))
    missing = browser.get(f"/ui/calibrations/{made}/apply?setting=99999")
    assert missing.status_code == 404 and "no setting 99999" in text_of(missing)
    assert browser.get(f"/ui/calibrations/{made}?budget=101").status_code == 422


def test_a_calibration_that_failed_says_why(browser: Browser, calibrations: Calibrations) -> None:
    made = begun(browser, b"no samples at all", "holiday.zip")
    calibrations.run(made, now=now())
    text = text_of(browser.get(f"/ui/calibrations/{made}"))
    assert "The calibration failed" in text and "no zip and no .npz" in text and "Try again" in text
    assert browser.get(f"/ui/calibrations/{made}/apply?setting=0").status_code == 409
    earlier = text_of(browser.get("/ui/services/default/digits/calibrate"))
    assert "holiday.zip" in earlier and "Failed" in earlier


def test_a_program_sends_the_same_samples_as_the_page(browser: Browser, calibrations: Calibrations) -> None:
    place = "/api/v2/services/default/digits/calibrations"
    answer = browser.web.post(place, files={"samples": ("yard.zip", b"no zip")}, headers=OURS)
    assert answer.status_code == 201 and answer.json()["samples"] == "yard.zip", answer.text
    calibrations.run(answer.json()["calibration_id"], now=now())
    ended = browser.get(answer.headers["location"]).json()
    assert ended["state"] == "FAILED" and "no zip and no .npz" in ended["error"]["message"]
    none = browser.web.post(place, files={"other": ("yard.zip", b"no zip")}, headers=OURS)
    assert none.status_code == 422 and none.json()["error"]["code"] == "BAD_SAMPLES"
    unknown = browser.web.post(place.replace("digits", "other"), files={"samples": ("a", b"x")}, headers=OURS)
    assert unknown.status_code == 404


def test_samples_must_be_sent_and_may_not_be_too_many_bytes(
    browser: Browser, calibrations: Calibrations, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = "/ui/services/default/digits/calibrate"
    none = browser.web.post(url, files={"samples": ("", b"")}, headers=OURS)
    assert none.status_code == 422 and "No samples were sent" in text_of(none)
    monkeypatch.setattr(calibration_upload, "MAX_SET_BYTES", 10)
    large = browser.web.post(url, files={"samples": ("a.zip", b"x" * 11)}, headers=OURS)
    assert large.status_code == 413 and "A set of samples may have" in text_of(large)
    assert not calibrations.of_service(USER, "default", "digits")
    unknown = browser.web.post("/ui/services/default/other/calibrate", files={"samples": ("a", b"x")}, headers=OURS)
    assert unknown.status_code == 404


def test_a_calibration_outlives_its_service_but_has_nothing_to_change_then(
    browser: Browser, calibrations: Calibrations, shared_data: Path
) -> None:
    arrays = np.load(shared_data / "images/digits_test.npz")
    file = browser.container.settings.data_dir / "few.npz"
    np.savez(file, x=arrays["x"][:20], y=arrays["y"][:20])
    made = begun(browser, file.read_bytes())
    calibrations.run(made, now=now())
    service = browser.container.joint.services.delete(USER, "default", "digits", now=now())
    browser.container.joint.controller.reconcile(service.uid, now=now())
    page = browser.get(f"/ui/calibrations/{made}")
    assert page.status_code == 200 and "no longer exists" in text_of(page) and "/apply?setting" not in page.text
    assert browser.send(f"/ui/calibrations/{made}/apply", {"setting": "0"}).status_code == 404
