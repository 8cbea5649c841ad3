"""The page of a task: why it waits, where its time went, its attempts, what can be done with it."""

from __future__ import annotations

import re

import httpx
import pytest
from sqlalchemy import update

from app.training import store
from app.training.model import Event, FailureKind, WaitingCode
from app.training.store.tables import attempts
from tests.harness.deployment import Deployment
from tests.harness.page_text import polled, text_of
from tests.harness.training.tasks import begin, database_of, waits
from tests.harness.variants import exhaustive


def test_the_page_of_a_task_that_waits_says_why_and_how_many_are_ahead(web: httpx.Client, ids: dict[str, str]) -> None:
    page = text_of(web.get(f"/ui/tasks/{ids['behind']}"))
    assert "1 task ahead · It starts by itself." in page
    assert "2 nodes with 8 each are needed · Next in the queue" in text_of(web.get(f"/ui/tasks/{ids['waiting']}"))
    assert "cancel it and request less" in text_of(web.get(f"/ui/tasks/{ids['too big']}"))


def test_the_page_asks_for_itself_until_the_task_has_ended(web: httpx.Client, deployment: Deployment) -> None:
    with database_of(deployment) as database:
        builder = begin(deployment, database, "erin", "soon over", ago_s=60).after(5).run()
        page = web.get(f"/ui/tasks/{builder.task.task_id}")
        (again,) = polled(page)
        assert 'http-equiv="refresh"' in page.text
        builder.after(30).end(Event.SUCCEED, "SUCCEEDED")
        last = web.get(again, headers={"HX-Request": "true"})
        assert "Succeeded" in text_of(last) and polled(last) == []
        assert 'http-equiv="refresh"' not in web.get(f"/ui/tasks/{builder.task.task_id}").text


def test_a_conversion_that_is_on_its_way_is_waited_for_but_not_for_ever(
    web: httpx.Client, deployment: Deployment
) -> None:
    with database_of(deployment) as database:
        fresh = begin(deployment, database, "erin", "fresh", ago_s=40).run().leave("model.onnx").after(5)
        fresh.end(Event.SUCCEED, "SUCCEEDED").converted()
        old = begin(deployment, database, "erin", "old", ago_s=4000).run().leave("model.onnx").after(5)
        old.end(Event.SUCCEED, "SUCCEEDED").converted()
    assert polled(web.get(f"/ui/tasks/{fresh.task.task_id}")) != []
    assert polled(web.get(f"/ui/tasks/{old.task.task_id}")) == []


def test_every_attempt_is_shown_with_what_became_of_it(web: httpx.Client, ids: dict[str, str]) -> None:
    page = web.get(f"/ui/tasks/{ids['retried']}")
    text = text_of(page)
    assert text.index("Attempt 2") < text.index("Total available GPUs 4.0 is less than total desired GPUs 8")
    assert "Not enough resources" in text and f"{ids['retried']}--a01" in text and f"{ids['retried']}--a02" in text
    assert "/private/users/erin/jobs/" + ids["retried"] + "--a01" in text
    assert "It goes to the trash in 3 days · It is deleted for good in 10 days" in text
    assert len(re.findall(r'class="time-bar', page.text)) == 3


@pytest.mark.parametrize("count", [15, *exhaustive((180,))], ids=["listed", "more events than are read at once"])
def test_of_very_many_attempts_the_last_are_shown(web: httpx.Client, deployment: Deployment, count: int) -> None:
    with database_of(deployment) as database:
        builder = begin(deployment, database, "erin", "tried all day", ago_s=9000)
        for _ in range(count):
            builder.run().after(3).end(Event.RETRY, "FAILED", FailureKind.INSUFFICIENT_RESOURCES, "no").after(9)
    page = web.get(f"/ui/tasks/{builder.task.task_id}")
    assert f"{count - 12} earlier attempts are not listed" in text_of(page)
    assert re.findall(r'id="attempt-(\d+)"', page.text) == [str(n) for n in range(count, count - 12, -1)]
    assert "Waiting for resources" in text_of(page) and str(count) in text_of(page)


@pytest.mark.parametrize(
    ("kind", "advice"),
    [
        (FailureKind.USER_ERROR, "Retrying would fail the same way"),
        (FailureKind.OUT_OF_MEMORY, "Make the batch or the model smaller"),
        (FailureKind.INFRA_ERROR, "This was not the task's fault"),
        (FailureKind.LOST, "The head of the cluster was restarted"),
        (FailureKind.UNKNOWN, "The log may tell more"),
        (FailureKind.INSUFFICIENT_RESOURCES, "Request fewer GPUs"),
    ],
)
def test_a_failure_says_what_to_do_next(
    web: httpx.Client, deployment: Deployment, kind: FailureKind, advice: str
) -> None:
    with database_of(deployment) as database:
        builder = begin(deployment, database, "erin", kind.value, ago_s=60).run().after(5)
        builder.end(Event.FAIL, "FAILED", kind, "it went wrong")
    page = text_of(web.get(f"/ui/tasks/{builder.task.task_id}"))
    assert advice in page and kind.value in page and "it went wrong" in page


def test_a_job_that_waits_inside_for_placement_is_told(web: httpx.Client, ids: dict[str, str]) -> None:
    page = text_of(web.get(f"/ui/tasks/{ids['placement']}"))
    assert "waits for placement since" in page and "waiting for placement" in page


def test_what_users_and_programs_wrote_is_escaped(web: httpx.Client, deployment: Deployment) -> None:
    with database_of(deployment) as database:
        builder = begin(deployment, database, "erin", "<b>bold</b>", ago_s=60, spec="workload: <script>").run()
        builder.log("<img src=x>\n").after(2).end(Event.FAIL, "FAILED", FailureKind.RUNTIME_ERROR, "<i>bad</i>")
    for path in ("", "/logs"):
        page = web.get(f"/ui/tasks/{builder.task.task_id}{path}").text
        assert "<b>bold" not in page and "<script>\n" not in page and "<img src=x>" not in page and "<i>bad" not in page


def test_cancelling_asks_first_and_a_second_time_says_that_it_is_too_late(
    web: httpx.Client, deployment: Deployment
) -> None:
    with database_of(deployment) as database:
        task_id = waits(
            begin(deployment, database, "erin", "unwanted", ago_s=9), WaitingCode.BEHIND, ahead=1
        ).task.task_id
    assert f'href="/ui/tasks/{task_id}/cancel"' in web.get("/ui/tasks?q=unwanted").text
    question = web.get(f"/ui/tasks/{task_id}/cancel")
    assert "It leaves the queue at once" in text_of(question)
    done = web.post(f"/ui/tasks/{task_id}/cancel")
    assert done.status_code == 303 and "The task was cancelled." in text_of(web.get(done.headers["location"]))
    with database_of(deployment) as database:
        ended = begin(deployment, database, "erin", "over", ago_s=60).run().after(2).end(Event.SUCCEED, "SUCCEEDED")
    late = web.post(f"/ui/tasks/{ended.task.task_id}/cancel")
    assert "nothing to cancel" in text_of(web.get(late.headers["location"]))
    form = web.get(f"/ui/tasks/{ended.task.task_id}/cancel")
    assert form.headers["location"].endswith("note=too-late")


def test_what_ray_does_not_end_can_be_let_go_after_ten_minutes(web: httpx.Client, deployment: Deployment) -> None:
    with database_of(deployment) as database:
        fresh = begin(deployment, database, "erin", "fresh", ago_s=300).after(3).run().after(200).do(Event.CANCEL)
        stuck = begin(deployment, database, "erin", "stuck", ago_s=3000).after(3).run().after(200)
        stuck.do(Event.CANCEL)
        for builder in (fresh, stuck):
            with database.write() as conn:
                task = store.get_task(conn, builder.task.task_id)
                assert task is not None
                store.change(conn, task, task.updated_at, cancel_requested_at=task.updated_at)
    early, late = f"/ui/tasks/{fresh.task.task_id}", f"/ui/tasks/{stuck.task.task_id}"
    assert "/release" not in web.get(early).text and web.get(f"{early}/release").status_code == 303
    assert web.post(f"{early}/release").status_code == 409
    assert f'href="{late}/release"' in web.get(late).text
    assert "Modelmill no longer waits for its end" in text_of(web.get(f"{late}/release"))
    done = web.post(f"{late}/release")
    shown = text_of(web.get(done.headers["location"]))
    assert "The task was cancelled." in shown and "Ray has not confirmed that its program ended" in shown
    assert web.post(f"{late}/release").status_code == 303


def test_a_model_is_offered_for_conversion_with_the_pictures_beside_it(web: httpx.Client, ids: dict[str, str]) -> None:
    page = web.get(f"/ui/tasks/{ids['succeeded']}").text
    assert 'name="artifact" value="model.onnx"' in page
    assert f'value="/private/users/erin/jobs/{ids["succeeded"]}--a01/images"' in page
    shown = web.get(f"/ui/tasks/{ids['converted']}")
    choices = re.findall(r"<option>([^<]+)</option>", shown.text)
    assert choices == 2 * ["model.onnx", "export/large.onnx"], "to convert, and to register"
    assert 'href="/ui/jobs/6f1c2a4e-1111-4222-8333-444455556666"' in shown.text
    assert "There are no reference pictures in it." in text_of(shown)


def test_a_conversion_that_is_refused_keeps_what_was_typed(web: httpx.Client, ids: dict[str, str]) -> None:
    typed = {"artifact": "model.onnx", "images": "/private/users/erin/datasets/none-such"}
    refused = web.post(f"/ui/tasks/{ids['succeeded']}/convert", data=typed)
    assert refused.status_code >= 400 and f'value="{typed["images"]}"' in refused.text
    assert 'id="convert-error"' in refused.text
    other = web.post(f"/ui/tasks/{ids['succeeded']}/convert", data={**typed, "images": "/private/users/finn/datasets"})
    assert other.status_code == 422
    assert web.post(f"/ui/tasks/{ids['failed']}/convert", data=typed).status_code == 409


def test_a_model_that_the_registry_refuses_keeps_its_name_and_an_unreadable_note_is_said(
    web: httpx.Client, ids: dict[str, str], deployment: Deployment
) -> None:
    typed = {"artifact": "model.onnx", "name": "a/b"}
    refused = web.post(f"/ui/tasks/{ids['succeeded']}/models", data=typed)
    assert refused.status_code == 422 and 'value="a/b"' in refused.text and 'id="register-error"' in refused.text
    note = deployment.settings().homes / f"users/erin/jobs/{ids['succeeded']}--a01/conversion.json"
    note.write_text('{"labels": 1}')
    assert "conversion.json.labels" in text_of(web.get(f"/ui/tasks/{ids['succeeded']}"))
    note.write_text('{"options": {"input_shapes": {"x": [1]}}}')
    assert "input_shapes" in text_of(web.get(f"/ui/tasks/{ids['succeeded']}"))
    note.unlink()


def test_checkpoints_are_listed_with_what_was_told_of_them_and_a_failed_task_goes_on_from_the_last(
    web: httpx.Client, ids: dict[str, str]
) -> None:
    page = web.get(f"/ui/tasks/{ids['failed']}")
    assert "val/accuracy" in text_of(page)
    assert "60 1.0 KiB 0.7658 best" in text_of(page)
    link = re.search(r'class="btn btn-primary" href="([^"]+)">Continue…', page.text)
    assert link is not None and link[1].endswith("resume=60")
    assert "checkpoints/global_step_60" in web.get(link[1].replace("&amp;", "&")).text
    told = web.get(f"/api/v2/tasks/{ids['failed']}/checkpoints").json()
    assert told["metric"] == "val/accuracy"
    assert [(one["step"], one["is_best"]) for one in told["checkpoints"]] == [(20, False), (40, False), (60, True)]
    assert "Continue…" not in web.get(f"/ui/tasks/{ids['canceled']}").text


def test_its_files_are_linked_into_the_data_page(web: httpx.Client, deployment: Deployment) -> None:
    with database_of(deployment) as database:
        builder = begin(deployment, database, "erin", "with files", ago_s=60).after(5).run().log("a line\n")
        builder.leave("model.onnx").after(5).end(Event.SUCCEED, "SUCCEEDED")
    page = web.get(f"/ui/tasks/{builder.task.task_id}").text
    links = dict(re.findall(r'<a href="(/ui/data/[^"]+)"[^>]*><code>([^<]+)</code>', page))
    folder = f"/ui/data/files/jobs/{builder.task.task_id}--a01"
    inputs = {f"/ui/data/files/datasets/{name}.parquet" for name in ("train", "test")}
    assert {folder, f"{folder}/driver.log", f"{folder}/model.onnx"} | inputs <= set(links)
    for link in links:
        if link.startswith(folder):
            assert web.get(link).status_code == 200, link


def test_a_task_on_a_cluster_that_was_removed_from_the_settings_says_so(
    web: httpx.Client, deployment: Deployment
) -> None:
    with database_of(deployment) as database:
        task_id = begin(deployment, database, "erin", "left alone", ago_s=60).run().task.task_id
        assert "no longer in the settings" not in text_of(web.get(f"/ui/tasks/{task_id}"))
        with database.write() as conn:
            conn.execute(update(attempts).where(attempts.c.task_id == task_id).values(cluster="west"))
    assert "The cluster west is no longer in the settings" in text_of(web.get(f"/ui/tasks/{task_id}"))
