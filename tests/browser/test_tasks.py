"""The pages of training in a real browser: with scripts and without, light and dark, wide and narrow, by keyboard."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from app.kit.clock import now
from app.training import store
from app.training.model import Event
from tests.browser.conftest import PATIENCE_MS, OpenContext
from tests.harness.api import Api
from tests.harness.browser.complaints import Watch
from tests.harness.browser.page_rules import assert_fits_a_phone, assert_sound
from tests.harness.browser.phone import Phone, opened_phone
from tests.harness.deployment import Deployment
from tests.harness.training import tasks as task_scenes
from tests.harness.training.tasks import TaskBuilder, begin, database_of, every_state, show_cluster
from tests.harness.variants import exhaustive

SCENES = (
    "succeeded",
    "converted",
    "failed",
    "retried",
    "placement",
    "canceling",
    "canceled",
    "waiting",
    "behind",
    "too big",
    "queued",
)
PAGES = {
    "list": "/ui/tasks",
    "no match": "/ui/tasks?q=no-such-name",
    "form": "/ui/tasks/new",
    "form of a script": "/ui/tasks/new?workload=script",
    "yaml": "/ui/tasks/new?mode=yaml",
    "cluster": "/ui/cluster",
    "environments": "/ui/admin/environments",
    "all tasks": "/ui/admin/tasks",
    "log": "/ui/tasks/{succeeded}/logs",
    "growing log": "/ui/tasks/{retried}/logs?wrap=on",
    "no log": "/ui/tasks/{waiting}/logs",
    "metrics": "/ui/tasks/{succeeded}/metrics",
    "no metrics": "/ui/tasks/{waiting}/metrics",
    "question": "/ui/tasks/{retried}/cancel",
    **{builder: f"/ui/tasks/{{{builder}}}" for builder in SCENES},
}
ALIKE = {
    *("converted", "canceling", "canceled", "behind", "too big", "queued", "no match"),
    *("placement", "waiting", "growing log", "no metrics", "form of a script"),
}
"""The same templates as others of these pages, in another state; the lists have the badges of all."""
EACH = [pytest.param(name, marks=[pytest.mark.exhaustive] * (name in ALIKE)) for name in PAGES]


SWEEP = """\
workload: sft
name: rates
model_id: Qwen/Qwen2.5-0.5B-Instruct
train_file: /private/users/local/datasets/train.parquet
n_gpus_per_node: 1
vary: {overrides.optim.lr: {low: 1e-6, high: 1e-4, log: true}, total_epochs: [1, 2, 3]}
search: optuna
metric: val/loss
most: 12
early_stop: {min_steps: 100}
"""


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """With a cluster by name only: the database and the picture are what a scheduler would have left."""
    with Deployment(tmp_path_factory.mktemp("tasks"), ray_address="http://127.0.0.1:9") as deployment:
        deployment.web()
        yield deployment


@pytest.fixture
def address(deployment: Deployment) -> str:
    return deployment.url


@pytest.fixture(scope="module")
def ids(deployment: Deployment) -> dict[str, str]:
    with Api(deployment.url) as api:
        file = "/private/users/local/datasets/train.parquet"
        api.http.put("/api/v2/files/content", params={"path": file}, content=b"rows").raise_for_status()
    made = every_state(deployment, "local")
    show_cluster(deployment, task_scenes.cluster("local", made))
    return made


def swept(deployment: Deployment) -> str:
    """A sweep of which some tasks have reported."""
    with Api(deployment.url) as api:
        answer = api.http.post("/api/v2/task-sweeps", content=SWEEP)
    answer.raise_for_status()
    with database_of(deployment) as database:
        for task, loss in zip(answer.json()["tasks"], (0.5, 0.25, 0.75), strict=False):
            with database.read() as conn:
                stored = store.get_task(conn, task["task_id"])
            assert stored is not None
            row = json.dumps({"step": 7, "data": {"val/loss": loss}})
            TaskBuilder(database, deployment, stored, now()).run().leave("metrics.jsonl", f"{row}\n".encode())
    return str(answer.json()["sweep_id"])


@pytest.fixture(scope="module")
def phone(chromium: Browser, deployment: Deployment) -> Iterator[Phone]:
    with opened_phone(chromium, deployment.url, PATIENCE_MS) as phone:
        yield phone


@pytest.fixture(scope="module")
def chinese_phone(chromium: Browser, deployment: Deployment) -> Iterator[Phone]:
    with opened_phone(chromium, deployment.url, PATIENCE_MS, locale="zh-TW") as phone:
        yield phone


@pytest.mark.parametrize("name", EACH)
def test_a_page_fits_a_phone_and_reads_well_in_both_themes(phone: Phone, ids: dict[str, str], name: str) -> None:
    assert_sound(phone.visit(PAGES[name].format(**ids)))
    assert phone.watch.complaints == []


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_a_phone_in_chinese(chinese_phone: Phone, ids: dict[str, str], name: str) -> None:
    assert_fits_a_phone(chinese_phone.visit(PAGES[name].format(**ids)))
    assert chinese_phone.watch.complaints == []


def test_the_pages_of_sweeps_fit_a_phone_and_read_well(
    phone: Phone, chinese_phone: Phone, deployment: Deployment, ids: dict[str, str]
) -> None:
    sweep_id = swept(deployment)
    for path in (f"/ui/task-sweeps/{sweep_id}", "/ui/task-sweeps"):
        assert_sound(phone.visit(path))
        assert_fits_a_phone(chinese_phone.visit(path))
    for one in (phone, chinese_phone):
        form = one.visit(f"/ui/tasks/new?sweep={sweep_id}")
        form.evaluate("document.querySelectorAll('form details').forEach(it => { it.open = true })")  # one stays open
        assert_fits_a_phone(form)
    assert_sound(phone.page)
    assert phone.watch.complaints == chinese_phone.watch.complaints == []


def test_the_page_of_a_task_follows_it_to_its_end_and_asks_no_more(
    page: Page, deployment: Deployment, ids: dict[str, str]
) -> None:
    with database_of(deployment) as database:
        builder = begin(deployment, database, "local", "followed", ago_s=30)
        page.goto(f"/ui/tasks/{builder.task.task_id}")
        badge = page.locator(".title-line .badge")
        expect(badge).to_have_text("Queued")
        builder.after(5).run().log("the first line\n")
        expect(badge).to_have_text("Running")
        expect(page.locator(".log-preview")).to_contain_text("the first line")
        page.get_by_role("button", name="Cancel", exact=True).click()
        question = page.get_by_role("dialog")
        expect(question).to_be_visible()
        builder.log("the first line\nthe second line\n")
        expect(page.locator(".log-preview")).to_contain_text("the second line")
        expect(question).to_be_visible()  # what is renewed does not close it
        page.keyboard.press("Escape")
        builder.after(5).end(Event.SUCCEED, "SUCCEEDED")
        expect(badge).to_have_text("Succeeded")
    expect(page.locator("[hx-trigger^=every]")).to_have_count(0)


def test_a_row_of_the_list_changes_by_itself_and_the_focus_stays(
    page: Page, deployment: Deployment, ids: dict[str, str]
) -> None:
    with database_of(deployment) as database:
        builder = begin(deployment, database, "local", "in the list", ago_s=30)
        page.goto("/ui/tasks?q=in+the+list")
        row = page.locator(f"#task-row-{builder.task.task_id}")
        expect(row).to_contain_text("Queued")
        link = row.get_by_role("link", name="in the list", exact=True)
        link.focus()
        builder.after(1).run()
        expect(row).to_contain_text("Running")
        expect(link).to_be_focused()


@pytest.mark.parametrize("has_script", [True, *exhaustive(False)])
def test_a_task_is_cancelled_after_a_question(
    open_context: OpenContext, deployment: Deployment, ids: dict[str, str], has_script: bool
) -> None:
    with database_of(deployment) as database:
        task_id = begin(deployment, database, "local", f"unwanted {has_script}", ago_s=30).task.task_id
    page = open_context(java_script_enabled=has_script).new_page()
    page.goto(f"/ui/tasks?q=unwanted+{has_script}")
    page.get_by_role("link", name=f"Cancel unwanted {has_script}").click()
    page.get_by_role("button", name="Cancel the task").click()
    page.wait_for_url(f"**/ui/tasks/{task_id}*")
    expect(page.locator(".title-line .badge")).to_have_text("Cancelled")


@pytest.mark.parametrize("has_script", [True, *exhaustive(False)])
def test_a_form_is_filled_in_previewed_and_submitted(
    open_context: OpenContext, ids: dict[str, str], watches: list[Watch], has_script: bool
) -> None:
    page = open_context(java_script_enabled=has_script).new_page()
    page.goto("/ui/tasks/new")
    page.get_by_label("Name", exact=True).fill("from the form")
    page.get_by_role("button", name="SFT").click()
    expect(page.get_by_label("Name", exact=True)).to_have_value("from the form")
    page.get_by_label("Hugging Face model").fill("Qwen/Qwen2.5-0.5B-Instruct")
    if not has_script:
        page.get_by_role("button", name="Preview").click()
    expect(page.locator("#spec-preview")).to_contain_text("train_file")
    expect(page.locator("#spec-preview .badge")).to_have_text("incomplete")
    page.get_by_label("Training data").fill("/private/users/local/datasets/missing")
    page.get_by_role("button", name="Submit the task").click()
    expect(page.locator("#problem-train_file")).to_be_visible()
    if has_script:
        expect(page.get_by_label("Training data")).to_be_focused()
    watches[0].forgive("status of 422")
    expect(page.get_by_label("Hugging Face model")).to_have_value("Qwen/Qwen2.5-0.5B-Instruct")
    page.get_by_label("Training data").fill("/private/users/local/datasets/train.parquet")
    page.get_by_role("button", name="Submit the task").click()
    page.wait_for_url(re.compile(r"/ui/tasks/mvp2-local-sft-"))
    expect(page.locator(".text-box")).to_contain_text("train_file: /private/users/local/datasets/train.parquet")
    page.get_by_role("link", name="Submit again…").first.click()
    expect(page.get_by_label("The task as YAML")).to_have_value(re.compile("name: from the form"))


def test_the_preview_keeps_up_with_typing(page: Page, ids: dict[str, str]) -> None:
    page.goto("/ui/tasks/new?workload=sft")
    page.get_by_label("Hugging Face model").fill("a/b")
    page.get_by_label("Training data").fill("/private/users/local/datasets/train.parquet")
    expect(page.locator("#spec-preview .badge")).to_have_text("complete")
    page.get_by_label("Nodes").fill("many")
    expect(page.locator("#spec-preview .badge")).to_have_text("incomplete")
    expect(page.get_by_label("Nodes")).to_be_focused()


def test_enter_in_a_field_submits_nothing(page: Page, ids: dict[str, str]) -> None:
    page.goto("/ui/tasks/new")
    page.get_by_label("Name", exact=True).fill("by accident")
    page.keyboard.press("Enter")
    expect(page.locator("#spec-preview")).to_contain_text("name: by accident")
    expect(page).to_have_url(re.compile(r"/ui/tasks/new$"))


def test_the_log_opens_at_its_end_and_stays_there(page: Page, deployment: Deployment, ids: dict[str, str]) -> None:
    with database_of(deployment) as database:
        builder = begin(deployment, database, "local", "talks", ago_s=30).run()
        text = "".join(f"line {n}\n" for n in range(1, 301))
        builder.log(text)
        page.goto(f"/ui/tasks/{builder.task.task_id}/logs")
        is_seen = """(text) => {
            const box = document.querySelector(".log-box"), pre = document.querySelector(".log-lines");
            return pre.textContent.trimEnd().endsWith(text)
                && pre.getBoundingClientRect().bottom <= box.getBoundingClientRect().bottom + 1;
        }"""
        page.wait_for_function(is_seen, arg="line 300")
        builder.log(text + "line 301\n")
        page.wait_for_function(is_seen, arg="line 301")
        page.get_by_role("link", name="Stop refreshing").click()
        expect(page.locator("[hx-trigger^=every]")).to_have_count(0)
        page.get_by_role("link", name="200", exact=True).click()
        expect(page.locator(".log-lines")).not_to_contain_text("line 101\n")
        expect(page.get_by_role("link", name="Refresh automatically")).to_be_visible()


def test_everything_on_the_page_of_a_task_is_reached_by_keyboard(page: Page, ids: dict[str, str]) -> None:
    page.goto(f"/ui/tasks/{ids['succeeded']}")
    seen = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        seen.add(page.evaluate("document.activeElement.textContent.trim() || document.activeElement.name"))
    assert {"Log", "Submit again…", "Convert", "images", "Whole log", "Log of attempt 1", "Copy"} <= seen


def test_tensorboard_opens_beside_a_task_and_reaches_nothing_but_itself(
    page: Page, watch: Watch, deployment: Deployment, ids: dict[str, str]
) -> None:
    pytest.importorskip("tensorboard")
    from tests.harness.training.event_files import write_events

    job = deployment.folder / "data" / "homes" / "users" / "local" / "jobs" / f"{ids['succeeded']}--a01"
    write_events(job / "tensorboard")
    page.goto(f"/ui/tasks/{ids['succeeded']}")
    with page.expect_popup() as opened:
        page.get_by_role("link", name="TensorBoard").click()
    board = opened.value
    expect(board.get_by_text("train/loss").first).to_be_visible()
    if not board.workers:  # one draws the curve
        board.wait_for_event("worker")
    watch.forgive("font-src")  # it names its fonts as if it were not below a path
    assert watch.complaints == []
    assert board.evaluate("fetch('/api/v2/tasks').then(it => it.status, () => 'refused')") == "refused"
    assert board.evaluate("window.open('/ui/tasks')") is None and board.evaluate("window.opener") is None
    watch.forgive("Content Security Policy|Blocked opening")
