"""A video job on every video of the nodes that labels select: pages, API and commands, with the controller."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest
from typer.testing import CliRunner

from app.accounts.model import Role
from app.bootstrap.container import Container
from app.kit.access import AccessRule
from app.kit.clock import now
from app.main import create_app
from app.nodes.grants import Grants
from app.settings import Settings
from app.video.cli import commands
from app.video.model.job import JOBS, Ending, JobState
from tests.harness.users import OURS, Within
from tests.harness.video.records import EDGE, dag, running_video
from tests.harness.web import served

SETS, PAGE = "/api/v2/video/job-sets", "/ui/video/sets"
BERLIN = {"site": "berlin"}


@dataclass(frozen=True)
class House:
    """edge0 has the videos 0 and 1; alice has a job of her own on it."""

    container: Container
    alice: Within
    mallory: Within
    token: str

    def look(self) -> None:
        self.container.video.controller.reconcile("", now=now())

    def jobs(self, set_id: str) -> list[tuple[str, str]]:
        """Of those under way: video, and its set."""
        self.look()
        _, jobs = self.container.video.sets.get("alice", set_id)
        return [(job.video_id, job.set_id) for job in jobs if job.state is not JobState.DONE]


@pytest.fixture
def house(settings: Settings) -> Iterator[House]:
    app = create_app(settings.model_copy(update={"accounts": True}))
    container: Container = app.state.container
    container.prepare()
    tokens = {}
    for name in ("alice", "mallory"):
        container.accounts.users.create(name, Role.USER, by="test")
        tokens[name] = container.accounts.tokens.issue(name, by="test")[1]
    people = {name: Within(app, Authorization=f"Bearer {token}", **OURS) for name, token in tokens.items()}
    running_video(container.video, "alice", now=now())
    yield House(container, people["alice"], people["mallory"], tokens["alice"])
    container.close()


def test_jobs_come_and_go_with_labels_and_access(house: House) -> None:
    body = {"node_selector": BERLIN, "dag": dag(), "name": "cams", "restart_policy": "always"}
    made = house.alice.request("POST", SETS, json=body)
    assert made.status_code == 201, made.text
    set_id = made.json()["set_id"]
    assert house.jobs(set_id) == [], "no node has the label"

    access = house.container.nodes.access
    access.label(EDGE, BERLIN, by="boss")
    assert house.jobs(set_id) == [("0", set_id), ("1", set_id)]
    assert house.jobs(set_id) == [("0", set_id), ("1", set_id)], "once each"
    shown = house.alice.get(f"{SETS}/{set_id}").json()
    assert (shown["under_way"], [job["name"] for job in shown["jobs"]]) == (2, ["cams edge0/0", "cams edge0/1"])
    assert "edge0" in house.alice.get(f"{PAGE}/{set_id}").text and "cams" in house.alice.get(PAGE).text

    access.label(EDGE, {}, by="boss")
    assert house.jobs(set_id) == []
    access.label(EDGE, BERLIN, by="boss")
    assert house.jobs(set_id) == [("0", set_id), ("1", set_id)], "it is back"
    access.permit(EDGE, Grants(videos={"1": AccessRule(("bob",))}), by="boss")
    assert house.jobs(set_id) == [("0", set_id)], "that video is no longer alice's"

    own = [job["uid"] for job in house.alice.get("/api/v2/video/jobs?state=EXEC").json()["jobs"]]
    assert house.alice.request("DELETE", f"{SETS}/{set_id}").status_code == 204
    assert house.alice.get(f"{SETS}/{set_id}").status_code == 404
    left = house.alice.get("/api/v2/video/jobs").json()["jobs"]
    assert {job["ending"] for job in left if job["name"].startswith("cams")} == {Ending.CANCELLED.value}
    assert own == [job["uid"] for job in house.alice.get("/api/v2/video/jobs?state=EXEC").json()["jobs"]]


def test_a_set_is_its_users_and_says_what_keeps_a_job_away(house: House) -> None:
    house.container.nodes.access.label(EDGE, BERLIN, by="boss")
    made = house.alice.request("POST", SETS, json={"node_selector": BERLIN, "dag": dag(), "video_id": 0})
    set_id = made.json()["set_id"]
    assert house.mallory.get(f"{SETS}/{set_id}").status_code == 404
    assert house.mallory.request("DELETE", f"{SETS}/{set_id}").status_code == 404
    assert house.mallory.get(f"{PAGE}/{set_id}").status_code == 404
    assert house.mallory.get(SETS).json() == {"job_sets": []}
    house.container.video.jobs.max_per_user = 1
    assert house.jobs(set_id) == []
    assert "that have not ended" in house.alice.get(f"{SETS}/{set_id}").json()["problem"]
    house.container.video.jobs.max_per_user = 9
    assert house.jobs(set_id) == [("0", set_id)]
    assert house.alice.get(f"{SETS}/{set_id}").json()["problem"] == ""


def test_a_camera_that_its_node_does_not_open_keeps_no_other_job_away(house: House) -> None:
    nodes = house.container.nodes
    nodes.access.label(EDGE, BERLIN, by="boss")
    node = nodes.get(EDGE)
    videos = {"0": {"type": "hall", "name": "a", "problem": "Not offered.", "refused": "yes"}, "1": {"type": "hall"}}
    report = replace(node.report, offers={JOBS: {"address": "", "videos": videos}})
    nodes.report(EDGE, report, address=node.address, version="1", now=now())
    set_id = house.alice.request("POST", SETS, json={"node_selector": BERLIN, "dag": dag()}).json()["set_id"]
    assert house.jobs(set_id) == [("1", set_id)]
    problem = house.alice.get(f"{SETS}/{set_id}").json()["problem"]
    assert "'0'" in problem and problem.endswith("Not offered.")


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"node_selector": {}, "dag": {}}, 422),
        ({"node_selector": {"-": "x"}, "stages": ["face_detection"]}, 422),
        ({"node_selector": BERLIN}, 400),
        ({"node_selector": BERLIN, "stages": ["nowhere"]}, 400),
        ({"node_selector": BERLIN, "dag": dag(), "policy": "nobody"}, 400),
    ],
)
def test_what_no_job_of_it_could_be_is_refused_at_once(house: House, body: object, status: int) -> None:
    assert house.alice.request("POST", SETS, json=body).status_code == status
    assert house.alice.get(SETS).json() == {"job_sets": []}


def test_page_and_commands_do_the_same(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = house.alice.post(PAGE, data={"labels": "berlin", "stages": "face_detection"})
    assert wrong.status_code == 422 and 'value="berlin"' in wrong.text
    sent = house.alice.post(
        PAGE, data={"name": "gate", "labels": "site=berlin", "stages": "face_detection, face_alignment"}
    )
    assert sent.status_code == 303
    monkeypatch.setenv("MODELMILL_TOKEN", house.token)
    with served(house.alice.app) as url:

        def run(*arguments: str) -> str:
            ran = CliRunner().invoke(commands, ["sets", *arguments, "--url", url])
            assert ran.exit_code == 0, ran.output
            return ran.stdout

        added = run("add", "--selector", "site=rome", "--flow", "face_detection", "--video", "1", "--name", "door")
        set_id = added.split()[0]
        assert f"{set_id}  door  site=rome  0 of 0 jobs run\n" in run("list")
        assert json.loads(run("show", set_id, "--json"))["video_id"] == "1"
        assert run("remove", set_id) == f"{set_id} removed\n"
    one = house.alice.get(SETS).json()["job_sets"][0]
    assert house.alice.post(f"{PAGE}/{one['set_id']}/delete").status_code == 303
    assert house.alice.get(SETS).json() == {"job_sets": []}
