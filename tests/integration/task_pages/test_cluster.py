"""The page of the cluster, and what is said where there is none."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import pytest

from app.accounts.model import Role
from app.kit.clock import now, to_text
from app.settings import Settings
from app.standalone.data_folder import DataFolder, Lock
from app.training.model import Node
from app.training.service.cluster import ClusterPicture, ClusterView, FirstInLine, Holder
from tests.harness.deployment import Deployment
from tests.harness.page_text import polled, text_of
from tests.harness.training.tasks import show_cluster
from tests.harness.users import OURS, person, within


def test_the_cluster_says_whose_each_gpu_is(web: httpx.Client, ids: dict[str, str]) -> None:
    page = web.get("/ui/cluster")
    kinds = re.findall(r'class="gpu gpu-(\w+)"', page.text)
    assert kinds == ["mine"] * 8 + ["others"] * 4 + ["outside"] + ["free"] * 3
    assert "3 / 16" in text_of(page) and "4 somebody" in text_of(page) and "71.5 of 96 CPUs free" in text_of(page)
    assert f'href="/ui/tasks/{ids["retried"]}"' in page.text


def test_of_anothers_task_the_cluster_says_no_id(web: httpx.Client, finn: httpx.Client, ids: dict[str, str]) -> None:
    assert "mvp2-somebody" not in web.get("/ui/cluster").text
    seen = finn.get("/ui/cluster").text
    assert "erin" in seen and ids["retried"] not in seen and ids["placement"] not in seen


def test_the_picture_is_renewed_and_its_absence_told(web: httpx.Client, deployment: Deployment) -> None:
    (again,) = polled(web.get("/ui/cluster"))
    assert "10.0.0.11" in web.get(again).text
    show_cluster(deployment, None)
    gone = web.get(again)
    assert "The cluster cannot be seen" in text_of(gone) and polled(gone)  # it may come


def test_a_cluster_without_gpus_counts_cpus(web: httpx.Client, deployment: Deployment) -> None:
    held = Holder("t", "somebody", "script", "RUNNING", 0, {}, cpus=2)
    node = Node("n1aabbccdd", "10.0.0.11", 0, 0, 4, 1)
    show_cluster(deployment, ClusterView(to_text(now()), (node,), (held,), first=FirstInLine("u", "me", 0, cpus=3)))
    page = text_of(web.get("/ui/cluster"))
    assert "1 / 4 CPUs free" in page and "with 3 CPUs." in page and "2 CPUs" in page


def test_where_training_is_off_an_administrator_is_told_how_to_switch_it_on(tmp_path: Path) -> None:
    with Deployment(tmp_path, accounts="true") as deployment:
        deployment.web()
        for who, is_told in (
            (person(deployment, "root-admin", Role.ADMIN), True),
            (person(deployment, "erin"), False),
        ):
            with who.browser() as client:
                page = client.get("/ui/tasks")
                assert "Training is off" in text_of(page) and ("MODELMILL_RAY_ADDRESS" in page.text) is is_told
                nav = client.get("/ui/jobs").text
                assert ('href="/ui/tasks"' in nav) is is_told and "/ui/cluster" not in nav
                assert client.post("/ui/tasks/new", data={}, headers=OURS).status_code == 503


def test_where_a_button_sets_training_up_the_page_leads_to_it(settings: Settings) -> None:
    folder = DataFolder(settings.data_dir, settings.run)
    folder.prepare()
    lock = Lock(folder)  # as `modelmill up` holds it
    with within(settings) as browser:
        page = browser.get("/ui/tasks").text
    lock.release()
    assert 'href="/ui/demonstrations">Go to the demonstrations' in page and "ops/ray-local" not in page
    with within(settings) as browser:
        page = browser.get("/ui/tasks").text
    assert "Go to the demonstrations" not in page and "ops/ray-local" in page


WEST = '{"west": {"address": "http://127.0.0.1:2"}}'


@pytest.mark.exhaustive
def test_of_several_clusters_each_is_shown_and_the_one_that_is_away_is_named(tmp_path: Path) -> None:
    settings = {"ray_address": "http://127.0.0.1:1", "ray_name": "lab", "ray_clusters": WEST}
    with Deployment(tmp_path, **settings) as deployment:
        deployment.web()
        node, at = Node("n1aabbccdd", "10.0.0.11", 8, 0, 96, 40), to_text(now())
        picture = ClusterPicture(deployment.redis)
        picture.put(ClusterView(at, (node,), first=FirstInLine("t", "somebody", 8, at, "somebody", "t12")))
        picture.put(ClusterView(at, (node,), unreachable_since=at, problem="Its head is gone."), "west")
        with httpx.Client(base_url=deployment.url) as web:
            page = text_of(web.get("/ui/cluster"))
            for words in (
                "lab answers",
                "west unreachable",
                "Ray of the cluster west is unreachable since",
                "First in the queue: somebody with 8 GPUs. Free resources are reserved for it.",
                "It waits for the end of a task of somebody.",
            ):
                assert words in page
            assert "t12" not in page, "the id of another user's task is nobody's business"
            answer = web.get("/api/v2/cluster").json()
            assert (answer["name"], [one["name"] for one in answer["further"]]) == ("lab", ["west"])
            first = {"user": "somebody", "gpus": 8, "cpus": 0, "task_id": "t", "starts_by": at}
            assert answer["first"] == {**first, "after_user": "somebody", "after_task": "t12"}
            assert 'list="clusters"' in web.get("/ui/tasks/new").text
            assert 'modelmill_training_ray_up{cluster="west"} 0.0' in web.get("/metrics").text
            picture.put(ClusterView(at, (node,), problem="The cluster runs Ray 2.55.0."), "west")
            assert "west: The cluster runs Ray 2.55.0. Tasks run" in text_of(web.get("/ui/cluster"))
