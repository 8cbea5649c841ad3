"""A new task, as YAML and by the form: both store the same text, and nothing that was typed is lost."""

from __future__ import annotations

import html
import re
import shutil
from pathlib import Path
from urllib.parse import unquote

import httpx
import pytest

from app.training import store
from app.training.model import Workload
from app.training.pages import new_form
from app.training.pages.examples import example
from app.training.spec import read_spec
from tests.harness.deployment import Deployment
from tests.harness.page_text import rows, text_of
from tests.harness.training.tasks import database_of

FORM = {
    "mode": "form",
    "action": "submit",
    "workload": "grpo",
    "name": "by form",
    "model_id": "Qwen/Qwen2.5-0.5B-Instruct",
    "train_file": "/private/users/erin/datasets/train.parquet",
    "val_file": "/private/users/erin/datasets/test.parquet",
    "nnodes": "2",
    "n_gpus_per_node": "4",
    "total_epochs": "3",
    "overrides": "actor_rollout_ref.rollout.n: 5\ntrainer.balance_batch: true",
    "convert": "1",
    "convert.images": "images",
}


def stored(deployment: Deployment, answer: httpx.Response) -> str:
    """The text of the task to which the answer leads."""
    assert answer.status_code == 303, text_of(answer)
    with database_of(deployment) as database, database.read() as conn:
        task = store.get_task(conn, answer.headers["location"].rpartition("/")[2].partition("?")[0])
    assert task is not None
    return task.spec_text


def previewed(answer: httpx.Response) -> str:
    match = re.search(r'<pre class="text-box"[^>]*>(.*?)</pre>', answer.text, re.DOTALL)
    assert match is not None
    return html.unescape(match[1])


def test_a_file_among_the_templates_fills_the_form_and_the_text(
    web: httpx.Client, deployment: Deployment, files: Path
) -> None:
    assert "templates-title" not in web.get("/ui/tasks/new").text
    text = "# nightly\nworkload: sft\nname: nightly\nn_gpus_per_node: 4\nmodel_id: a/b\ntrain_file: /private/common/x\n"
    own, common = (f"{place}/code/templates" for place in ("/private/users/erin", "/private/common"))
    homes = deployment.settings().homes
    mine, shared = homes / "users/erin/code/templates", homes / "common/code/templates"
    mine.mkdir()
    shared.mkdir()
    (mine / "nightly.yaml").write_text(text)
    (shared / "of all.yml").write_text("no task")
    (shared / "README").write_text("no template")
    page = web.get("/ui/tasks/new")
    links = [html.unescape(link) for link in re.findall(r'href="(/ui/tasks/new\?[^"]*template=[^"]*)"', page.text)]
    assert [unquote(link.partition("template=")[2]) for link in links] == [
        f"{own}/nightly.yaml",
        f"{common}/of all.yml",
    ]
    assert 'value="nightly"' in web.get(links[0]).text
    as_text = web.get(links[0].replace("mode=form", "mode=yaml")).text
    assert html.unescape(text) in html.unescape(as_text)
    assert ">\nno task</textarea>" in web.get(links[1]).text
    for path, status in ((f"{own}/gone.yaml", 404), ("/private/users/finn/x.yaml", 422), ("/etc/passwd", 422)):
        assert web.get("/ui/tasks/new", params={"template": path}).status_code == status
    shutil.rmtree(shared)
    shutil.rmtree(mine)


def test_form_and_yaml_store_the_same_text(web: httpx.Client, deployment: Deployment, files: Path) -> None:
    by_form = stored(deployment, web.post("/ui/tasks/new", data=FORM))
    assert previewed(web.post("/ui/tasks/new", data={**FORM, "action": "preview"})) == by_form
    yaml = {"mode": "yaml", "action": "submit", "text": by_form.replace("\n", "\r\n")}  # as browsers send it
    assert stored(deployment, web.post("/ui/tasks/new", data=yaml)) == by_form
    spec, _ = read_spec(by_form.encode())
    assert (spec.workload, spec.nnodes, spec.n_gpus_per_node) == (Workload.GRPO, 2, 4)
    assert spec.overrides == {"actor_rollout_ref.rollout.n": 5, "trainer.balance_batch": True}
    assert spec.convert is not None and spec.convert.images == "images"


def test_a_yaml_file_stands_for_the_text_and_is_stored_byte_for_byte(
    web: httpx.Client, deployment: Deployment, files: Path
) -> None:
    text = "# mine\n" + stored(deployment, web.post("/ui/tasks/new", data=FORM))
    parts = {
        "mode": (None, "yaml"),
        "action": (None, "submit"),
        "text": (None, "workload: never"),
        "file": ("task.yaml", text.encode()),
    }
    assert stored(deployment, web.post("/ui/tasks/new", files=parts)) == text


@pytest.mark.parametrize(
    ("change", "field", "message"),
    [
        ({"train_file": ""}, "train_file", "needs it"),
        ({"train_file": "/private/users/finn/datasets/x"}, "train_file", "must lie under"),
        ({"val_file": "/private/users/erin/datasets/missing"}, "val_file", "no /private"),
        ({"nnodes": "two"}, "nnodes", "integer"),
        ({"n_gpus_per_node": "0"}, "n_gpus_per_node", "at least one GPU"),
        ({"overrides": "trainer.nnodes: 9"}, "overrides", "nnodes"),
        ({"overrides": "a: ["}, "overrides", "line"),
        ({"convert.images": ""}, "convert.images", "it is needed"),
    ],
)
def test_what_is_wrong_is_said_beside_its_field_and_nothing_typed_is_lost(
    web: httpx.Client, files: Path, change: dict[str, str], field: str, message: str
) -> None:
    before = len(rows(web.get("/ui/tasks?q=by+form")))
    refused = web.post("/ui/tasks/new", data={**FORM, **change})
    assert refused.status_code == 422
    beside = re.search(rf'id="problem-{field.replace(".", "-")}">([^<]+)<', refused.text)
    assert beside is not None and message.lower() in html.unescape(beside[1]).lower(), text_of(refused)
    for name, value in {**FORM, **change}.items():
        if name not in ("mode", "action", "convert", "overrides"):
            assert f'name="{name}" value="{html.escape(value)}"' in refused.text, name
    assert "trainer.balance_batch" in refused.text or "overrides" in change
    assert len(rows(web.get("/ui/tasks?q=by+form"))) == before


def test_yaml_that_cannot_be_read_says_where_and_stays(web: httpx.Client) -> None:
    text = "workload: ppo\n  name: [<b>\n"
    refused = web.post("/ui/tasks/new", data={"mode": "yaml", "action": "submit", "text": text})
    assert refused.status_code == 422 and "line 2" in text_of(refused)
    assert html.escape(text, quote=False) in refused.text
    wrong = web.post("/ui/tasks/new", data={"mode": "yaml", "action": "submit", "text": "workload: none\nbogus: 1\n"})
    assert "workload:" in text_of(wrong) and "bogus:" in text_of(wrong)


def test_a_path_that_may_not_be_used_is_told_beside_the_yaml(web: httpx.Client) -> None:
    text = "workload: script\ncode_path: /private/users/erin/code\n"
    refused = web.post("/ui/tasks/new", data={"mode": "yaml", "action": "submit", "text": text})
    assert refused.status_code == 422 and "code_path: " in text_of(refused) and text in refused.text
    assert 'id="text-error"' in refused.text


def test_going_from_one_way_to_the_other_loses_nothing(web: httpx.Client) -> None:
    as_yaml = web.post("/ui/tasks/new", data={**FORM, "action": "mode:yaml"})
    text = re.search(r'<textarea id="text"[^>]*>\n(.*?)</textarea>', as_yaml.text, re.DOTALL)
    assert text is not None and "n_gpus_per_node: 4" in text[1]
    yaml = {"mode": "yaml", "action": "mode:form", "text": html.unescape(text[1])}
    back = web.post("/ui/tasks/new", data=yaml)
    for name in ("name", "model_id", "train_file", "nnodes", "convert.images"):
        assert f'name="{name}" value="{FORM[name]}"' in back.text
    more = {**yaml, "text": yaml["text"] + "  options:\n    toolchain: host\n"}
    stays = web.post("/ui/tasks/new", data=more)
    assert "more than the form can show" in text_of(stays) and "toolchain: host" in stays.text


def test_another_workload_keeps_what_was_typed_for_this_one(web: httpx.Client) -> None:
    script = web.post("/ui/tasks/new", data={**FORM, "action": "workload:script"})
    assert 'id="field-program"' in script.text
    sent = dict(re.findall(r'name="([^"]+)" value="([^"]*)"', script.text))
    assert sent["model_id"] == FORM["model_id"] and sent["nnodes"] == FORM["nnodes"]


def test_a_task_is_submitted_once_however_often_the_button_is_pressed(
    web: httpx.Client, deployment: Deployment, files: Path
) -> None:
    key = re.search(r'name="key" value="([^"]+)"', web.get("/ui/tasks/new").text)
    assert key is not None
    first, second = (web.post("/ui/tasks/new", data={**FORM, "key": key[1]}) for _ in range(2))
    assert first.headers["location"] == second.headers["location"]
    changed = web.post("/ui/tasks/new", data={**FORM, "key": key[1], "name": "another"})
    assert "name: another" in stored(deployment, changed)


def test_submitting_again_begins_with_the_same_text(web: httpx.Client, ids: dict[str, str]) -> None:
    page = web.get(f"/ui/tasks/new?mode=yaml&from={ids['failed']}").text
    assert "# the first one" in page and "name: loss explodes" in page
    form = web.get(f"/ui/tasks/new?mode=form&from={ids['failed']}").text
    assert 'name="name" value="loss explodes"' in form
    assert web.get("/ui/tasks/new?from=mvp2-nobody").status_code == 404


def test_the_preview_follows_what_is_typed_and_stores_nothing(web: httpx.Client) -> None:
    before = rows(web.get("/ui/tasks"))
    shown = web.post("/ui/tasks/new/preview", data=FORM, headers={"HX-Request": "true"})
    assert "2 × 4 GPUs" in text_of(shown) and "n_gpus_per_node: 4" in previewed(shown)
    lacking = web.post("/ui/tasks/new/preview", data={**FORM, "val_file": ""}, headers={"HX-Request": "true"})
    assert lacking.status_code == 200 and "val_file : grpo needs it" in text_of(lacking)
    assert rows(web.get("/ui/tasks")) == before


def test_fields_offer_what_lies_in_the_home(web: httpx.Client, files: Path) -> None:
    assert '<option value="/private/users/erin/datasets/train.parquet">' in web.get("/ui/tasks/new").text


@pytest.mark.parametrize("workload", list(Workload))
def test_every_example_can_be_read_and_comes_through_the_form(workload: Workload) -> None:
    spec, _ = read_spec(example(workload, "/private/users/erin", "/private/common").encode())
    assert spec.workload is workload
    values = new_form.values_of(spec)
    assert values is not None and new_form.spec_of(values)[0] == spec


def test_a_form_that_is_too_large_is_refused(web: httpx.Client) -> None:
    assert web.post("/ui/tasks/new", data={"mode": "yaml", "text": "x" * 500_000}).status_code == 413


def test_what_differs_from_the_task_it_was_made_of_is_shown_while_it_is_written(
    web: httpx.Client, files: Path, ids: dict[str, str]
) -> None:
    page = web.get(f"/ui/tasks/new?mode=yaml&from={ids['failed']}")
    assert f'name="origin" value="{ids["failed"]}"' in page.text and "Nothing so far" in text_of(page)
    text = re.search(r'<textarea id="text"[^>]*>\n(.*?)</textarea>', page.text, re.DOTALL)
    assert text is not None
    longer = html.unescape(text[1]).replace("epochs: 1", "epochs: 3")
    written = {"mode": "yaml", "origin": ids["failed"], "text": longer}
    assert "total_epochs 1 → 3" in text_of(web.post("/ui/tasks/new/preview", data=written))
    assert "What differs" not in text_of(web.post("/ui/tasks/new/preview", data={**written, "origin": "none"}))


def test_a_task_is_submitted_again_with_other_values_from_its_best_checkpoint(
    web: httpx.Client, files: Path, ids: dict[str, str]
) -> None:
    path = f"/api/v2/tasks/{ids['failed']}/again"
    answer = web.post(path, json={"set": {"total_epochs": 3, "overrides.data.seed": 7}, "resume": "best"})
    assert answer.status_code == 201, answer.text
    begin = f"/private/users/erin/jobs/{ids['failed']}/checkpoints/global_step_60"
    assert answer.json()["changes"] == [
        {"field": "total_epochs", "before": 1, "after": 3},
        {"field": "resume_from", "before": None, "after": begin},
        {"field": "overrides.data.seed", "before": None, "after": 7},
    ]
    assert web.get(answer.headers["location"]).json()["name"] == "loss explodes"
    twice = [web.post(path, json={"resume": 40}, headers={"Idempotency-Key": "again-40"}) for _ in range(2)]
    assert [one.status_code for one in twice] == [201, 200]
    assert twice[0].json()["task_id"] == twice[1].json()["task_id"]
    for body, reason in (({"resume": 41}, "no checkpoint of step 41"), ({"set": {"bogus": 1}}, "bogus")):
        refused = web.post(path, json=body, headers={"Accept": "application/json"})
        assert refused.status_code == 422 and reason in refused.json()["error"]["message"]
