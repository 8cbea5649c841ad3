"""Uploads from the form: broken off by a closed tab and continued, paused, cancelled."""

from __future__ import annotations

import io
import re
import zipfile
from pathlib import Path

from playwright.sync_api import Page, Request, expect

from tests.harness.api import pngs, store_of
from tests.harness.deployment import Deployment

NOISE_BYTES = 3 << 20
SLOW = {"offline": False, "latency": 0, "downloadThroughput": -1, "uploadThroughput": 500_000}
FAST = {**SLOW, "uploadThroughput": -1}


def big_zip(folder: Path) -> bytes:
    """A picture and as much else that an upload of it takes a while on a slow line."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as packed:
        packed.writestr(*pngs(1)[0])
        packed.writestr("notes.txt", b"x" * NOISE_BYTES)
    (folder / "pictures.zip").write_bytes(file.getvalue())
    return file.getvalue()


def test_an_upload_goes_on_after_its_tab_was_closed(page: Page, service: Deployment, tmp_path: Path) -> None:
    data, file = big_zip(tmp_path), tmp_path / "pictures.zip"
    images = page.locator('[data-upload="images"]')
    line = page.context.new_cdp_session(page)
    line.send("Network.enable")
    page.goto("/ui/jobs/new")
    line.send("Network.emulateNetworkConditions", SLOW)
    page.locator("#file-images").set_input_files(file)
    expect(images.locator("[data-told]")).to_contain_text("/s")
    expect(images.get_by_role("button", name="Pause")).to_be_visible()
    line.send("Network.emulateNetworkConditions", FAST)
    page.reload()
    expect(images.locator("[data-interrupted]")).to_contain_text("pictures.zip was interrupted")

    parts: list[Request] = []
    page.on("request", lambda request: parts.append(request) if request.method == "PATCH" else None)
    page.locator("#file-images").set_input_files(file)
    expect(images).to_have_class(re.compile("is-filled"))
    assert 0 < int(parts[0].headers["upload-offset"]) < len(data)
    key = images.locator("[data-key]").input_value()
    assert b"".join(store_of(service).read(key)) == data


def test_a_paused_upload_goes_on_and_a_cancelled_one_is_deleted(
    page: Page, service: Deployment, tmp_path: Path
) -> None:
    big_zip(tmp_path)
    images = page.locator('[data-upload="images"]')
    line = page.context.new_cdp_session(page)
    line.send("Network.enable")
    page.goto("/ui/jobs/new")
    line.send("Network.emulateNetworkConditions", SLOW)
    page.locator("#file-images").set_input_files(tmp_path / "pictures.zip")
    expect(images.locator("[data-told]")).to_contain_text("/s")
    images.get_by_role("button", name="Pause").click()
    images.get_by_role("button", name="Resume").click()
    expect(images.get_by_role("button", name="Pause")).to_be_visible()
    with page.expect_response(lambda answer: answer.request.method == "DELETE") as ended:
        images.get_by_role("button", name="Cancel").click()
    assert ended.value.status == 204
    upload_id = ended.value.url.rpartition("/")[2]
    assert not list(store_of(service).list(f"uploads/{upload_id}/"))
    line.send("Network.emulateNetworkConditions", FAST)
