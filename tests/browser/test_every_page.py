"""What holds for every page, finished and failed, in light and dark, wide and narrow."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from app.bootstrap.container import assemble
from app.inference.model_card import Format
from app.kit.clock import now
from app.model_registry.model import NewVersion
from tests.browser.conftest import PATIENCE_MS
from tests.harness.api import Api, png, small_model
from tests.harness.browser.complaints import Watch
from tests.harness.browser.joint_records import set_scene
from tests.harness.browser.page_rules import assert_fits_a_phone, assert_sound, axe_issues, contrast_issues
from tests.harness.browser.phone import Phone, opened_phone
from tests.harness.browser.video_records import VideoPages, set_video_scene
from tests.harness.deployment import Deployment

PAGES = {
    "list": "/ui/jobs",
    "list without a match": "/ui/jobs?q=no-such-name",
    "list that is filtered": "/ui/jobs?q=status:ended+snr:>0&sort=snr",
    "search": "/ui/search?q=finished",
    "API description": "/ui/api",
    "list after a reset": "/ui/jobs?note=restarted",
    "stored results": "/ui/results",
    "archive": "/ui/archive",
    "archive without a match": "/ui/archive?q=no-such-name",
    "archived job": "/ui/archive/{finished}",
    "new": "/ui/jobs/new",
    "new from a job": "/ui/jobs/new?from={finished}",
    "finished job": "/ui/jobs/{finished}",
    "failed job": "/ui/jobs/{failed}",
    "job with a long name": "/ui/jobs/{another}",
    "layers of a job": "/ui/jobs/{finished}?tab=layers",
    "outputs of a job": "/ui/jobs/{finished}?tab=outputs",
    "pictures of a job": "/ui/jobs/{finished}?tab=pictures",
    "one picture of a job": "/ui/jobs/{finished}?tab=pictures&picture=0",
    "graph of a job": "/ui/jobs/{finished}?tab=graph",
    "graphs of a job side by side": "/ui/jobs/{finished}?tab=graph&beside=true&colour=bits",
    "log of a job": "/ui/jobs/{finished}?tab=log",
    "options of a job": "/ui/jobs/{finished}?tab=options",
    "API of a job": "/ui/jobs/{finished}?tab=api",
    "quality": "/ui/jobs/{finished}/quality",
    "quality of a job with a long name": "/ui/jobs/{another}/quality",
    "comparison": "/ui/jobs/compare?a={finished}&b={another}",
    "comparison of three": "/ui/jobs/compare?a={finished}&b={another}&c={finished}",
    "choice of a comparison": "/ui/jobs/compare",
    "system": "/ui/system",
    "graph": "/ui/jobs/{finished}/graph/out.onnx",
    "data": "/ui/data",
    "home": "/ui/data/files",
    "folder": "/ui/data/files/datasets?note=trashed&at=trash/files/x&was=datasets/a.csv",
    "text file": "/ui/data/files/datasets/a.csv",
    "picture file": "/ui/data/files/datasets/0.png",
    "model file": "/ui/data/files/models/net.onnx",
    "trash": "/ui/data/files/trash/files",
    "common": "/ui/data/common",
    "move": "/ui/data/move?path=datasets/a.csv",
    "delete for good": "/ui/data/delete?path=tmp/left",
    "one-time password": "/ui/data/sftp-password",
    "convert from data": "/ui/jobs/from-data?model=models/net.onnx",
    "training that is off": "/ui/tasks",
    "services": "/ui/services",
    "service": "/ui/services/default/gate",
    "fleet": "/ui/services/default/fleet",
    "new service": "/ui/services/new",
    "results of a service": "/ui/services/default/gate/results",
    "rules of a service": "/ui/services/default/gate/rules?edit=at-night",
    "sinks of a service": "/ui/services/default/gate/sinks",
    "drift of a service": "/ui/services/default/gate/drift",
    "change of a service": "/ui/services/default/gate/edit",
    "end of a service": "/ui/services/default/gate/delete",
    "calibration": "/ui/services/default/gate/calibrate",
    "video jobs": "/ui/video",
    "video jobs without a match": "/ui/video?q=no-such-job",
    "video job": "/ui/video/{running_video}",
    "video job that waits": "/ui/video/{waiting_video}",
    "ended video job": "/ui/video/{ended_video}",
    "job sets": "/ui/video/sets",
    "new video job": "/ui/video/new?node=edge0&video=1",
    "video job again": "/ui/video/new?from={running_video}",
    "new video job as JSON": "/ui/video/new?way=json",
    "cuts of a video job": "/ui/video/{running_video}/what-if",
    "cuts of a DAG": "/ui/video/what-if",
    "end of a video job": "/ui/video/{running_video}/cancel",
    "rules of a video job": "/ui/video/{running_video}/rules",
    "recording of a video job": "/ui/video/{running_video}/recording",
    "sinks of a video job": "/ui/video/{running_video}/sinks",
    "rules of a video job that ended": "/ui/video/{ended_video}/rules",
    "deletion of a video job": "/ui/video/{ended_video}/delete",
    "stages": "/ui/video/stages",
    "end of a stage": "/ui/video/stages/face_detection/remove",
    "models": "/ui/models",
    "model": "/ui/models/named?name=digits",
    "older version of a model": "/ui/models/named?name=digits@1",
    "next version of a model": "/ui/models/new?job={finished}&name=digits",
    "new model": "/ui/models/new?job={finished}",
    "end of a model": "/ui/models/delete?name=digits",
    "nodes": "/ui/nodes",
    "node": "/ui/nodes/edge0",
    "new node": "/ui/nodes/new",
    "end of a node": "/ui/nodes/edge0/remove",
    "sweeps": "/ui/sweeps",
    "new sweep": "/ui/sweeps/new?job={finished}",
    "table of ticked jobs": "/ui/sweeps/jobs?job={finished}&job={another}&job={failed}",
    "links to a job": "/ui/jobs/{finished}/shares",
    "use elsewhere": "/ui/jobs/{finished}/exports",
    "notifications": "/ui/account/notifications?subject=job:{finished}",
    "demonstrations": "/ui/demonstrations",
    "unknown job": "/ui/jobs/00000000-0000-4000-8000-000000000000",
    "unknown page": "/ui/nothing",
}
UNKNOWN = ("unknown job", "unknown page")
ALIKE = {
    "common",
    "graphs of a job side by side",
    "model file",
    "new video job as JSON",
    "one picture of a job",
    "picture file",
    "quality of a job with a long name",
    "results of a service",
    "list without a match",
    "list after a reset",
    "new from a job",
    "video job again",
    "cuts of a DAG",
    "ended video job",
    "rules of a service",
    "sinks of a service",
    "end of a service",
    "end of a video job",
    "end of a stage",
    "end of a model",
    "end of a node",
    "list that is filtered",
    "archive without a match",
    "comparison of three",
    "video jobs without a match",
    "rules of a video job that ended",
    "older version of a model",
    "next version of a model",
    "unknown page",
}
"""The same templates as others of these pages, with other records."""
MADE_OF_THE_SAME = {
    "layers of a job",
    "outputs of a job",
    "log of a job",
    "options of a job",
    "API of a job",
    "job with a long name",
    "stored results",
    "archived job",
    "comparison",
    "folder",
    "text file",
    "move",
    "one-time password",
    "training that is off",
    "change of a service",
    "video job that waits",
    "cuts of a video job",
    "recording of a video job",
    "sinks of a video job",
    "deletion of a video job",
    "models",
    "new model",
    "new node",
    "new sweep",
    "links to a job",
    "demonstrations",
    "unknown job",
}
"""Parts that others of these pages have, too: tabs, forms, questions, tables."""
EACH = [pytest.param(name, marks=[pytest.mark.exhaustive] * (name in ALIKE | MADE_OF_THE_SAME)) for name in PAGES]


@pytest.fixture(scope="module")
def filled_home(service: Deployment) -> None:
    """What the pages of data show."""
    with Api(service.url) as api:
        files = [("datasets/a.csv", b"a,b"), ("datasets/0.png", png(0)), ("models/net.onnx", small_model())]
        for path, data in [*files, (f"datasets/{'long-' * 30}.txt", b"long")]:
            api.http.put("/api/v2/files/content", params={"path": path}, content=data).raise_for_status()
        for path, data in files[:1]:
            api.http.delete("/api/v2/files", params={"path": path}).raise_for_status()
            api.http.put("/api/v2/files/content", params={"path": path}, content=data).raise_for_status()
    (service.settings().homes / "users/local/tmp/left").write_bytes(b"left")


@pytest.fixture(scope="module")
def joint(service: Deployment, finished: str) -> None:
    """What the pages of joint inference show."""
    container = assemble(service.settings())
    set_scene(container)
    container.models.add_from_job("local", "digits", finished, Format.NEF, now=now())
    following = NewVersion(is_next=True, note="as it came from training")
    container.models.add_from_job("local", "digits", finished, Format.ONNX, now=now(), versioning=following)
    container.models.set_tag("local", "digits", "stable", 1, now=now())
    container.close()


@pytest.fixture(scope="module")
def video(service: Deployment, joint: None) -> VideoPages:
    """What the pages of video show. After joint: both have nodes of the same names."""
    container = assemble(service.settings())
    scene = set_video_scene(container)
    container.close()
    return scene


@pytest.fixture(scope="module")
def phone(chromium: Browser, service: Deployment) -> Iterator[Phone]:
    with opened_phone(chromium, service.url, PATIENCE_MS) as phone:
        yield phone


@pytest.fixture(scope="module")
def chinese_phone(chromium: Browser, service: Deployment) -> Iterator[Phone]:
    with opened_phone(chromium, service.url, PATIENCE_MS, locale="zh-TW") as phone:
        yield phone


@pytest.fixture(scope="module")
def addresses(finished: str, another: str, failed: str, filled_home: None, video: VideoPages) -> dict[str, str]:
    """Of the pages, by their names."""
    uids = {f"{state}_video": uid for state, uid in video._asdict().items()}
    given = {"finished": finished, "another": another, "failed": failed, **uids}
    return {name: path.format(**given) for name, path in PAGES.items()}


@pytest.mark.parametrize("name", EACH)
def test_a_page_fits_a_phone_reads_well_in_both_themes_and_stumbles_over_nothing(
    phone: Phone, addresses: dict[str, str], name: str
) -> None:
    assert_sound(phone.visit(addresses[name]))
    assert any("/static/" in url for url in phone.watch.requests)
    if name in UNKNOWN:
        phone.watch.forgive(r"status of 404")
    assert phone.watch.complaints == []


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_a_phone_in_chinese(chinese_phone: Phone, addresses: dict[str, str], name: str) -> None:
    assert_fits_a_phone(chinese_phone.visit(addresses[name]))
    if name in UNKNOWN:
        chinese_phone.watch.forgive(r"status of 404")
    assert chinese_phone.watch.complaints == []


def test_a_broken_policy_and_another_host_would_be_noticed(page: Page, watch: Watch) -> None:
    page.goto("/ui/system")
    with page.expect_console_message(lambda message: "inline script" in message.text):
        page.evaluate(
            """() => {
                const script = document.createElement("script");
                script.textContent = "window.ran = true";
                document.body.append(script);
            }"""
        )
    with page.expect_console_message(lambda message: "elsewhere.invalid" in message.text):
        page.evaluate("() => { new Image().src = 'http://elsewhere.invalid/a.png'; }")
    assert any("inline script" in complaint for complaint in watch.complaints)
    assert any("elsewhere.invalid" in complaint for complaint in watch.complaints)
    assert page.evaluate("window.ran") is None
    watch.forgive(r"inline script|elsewhere\.invalid")


def test_axe_would_notice_a_text_that_is_hard_to_read_and_a_field_without_a_name(page: Page) -> None:
    page.goto("/ui/system")
    assert contrast_issues(page) == []
    page.evaluate(
        """() => {
            const text = document.createElement("p");
            text.style.color = "#bbb";
            text.style.background = "#fff";
            text.textContent = "hardly there";
            document.querySelector("main").append(text, document.createElement("input"));
        }"""
    )
    assert {issue.partition(":")[0] for issue in axe_issues(page)} == {"color-contrast", "label"}
    for _ in range(2):  # what is wrong is told on each page
        [issue] = contrast_issues(page)
        assert issue.startswith("color-contrast: ")
