"""Administrators add cameras to a node, change and remove them while its agent runs: by API, page and command."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from typer.testing import CliRunner

from app.accounts.model import Role
from app.bootstrap.container import Container
from app.kit.clock import now
from app.main import create_app
from app.nodes.cameras import KEY
from app.nodes.cli import commands
from app.nodes.errors import NodeBusy
from app.nodes.model import DiscoveredCamera, NodeReport, Order, Side
from app.settings import Settings
from tests.harness.users import OURS, Within
from tests.harness.video.records import EDGE, running_video
from tests.harness.web import served

CAMERAS = f"/neptune/nodes/{EDGE}/cameras"
PAGE = f"/ui/nodes/{EDGE}"
SECRET = "rtsp://ann:secret@10.0.0.7/stream"
NAMED = "rtsp://10.0.0.7/stream"


@pytest.fixture
def boss(settings: Settings) -> Iterator[Within]:
    """edge0 has two videos, and a job of alice reads that of number 1."""
    app = create_app(settings.model_copy(update={"accounts": True}))
    container: Container = app.state.container
    container.prepare()
    container.accounts.users.create("boss", Role.ADMIN, by="test")
    _, token = container.accounts.tokens.issue("boss", by="test")
    job = running_video(container.video, "alice", now=now())
    container.video.controller.reconcile(job.uid, now=now())
    yield Within(app, Authorization=f"Bearer {token}", **OURS)
    container.close()


def container_of(boss: Within) -> Container:
    container: Container = boss.app.state.container
    return container


def order(boss: Within) -> Order:
    (only,) = (one for one in container_of(boss).nodes.pending(EDGE) if one.key == KEY)
    return only


def test_a_camera_is_added_changed_and_removed_and_the_node_is_told_each_time(boss: Within) -> None:
    added = boss.post(CAMERAS, json={"type": "entrance", "source": SECRET})
    assert (added.status_code, added.json()) == (201, {"id": "1000", "type": "entrance", "source": NAMED})
    assert added.headers["location"] == f"{CAMERAS}/1000"
    assert order(boss).content["cameras"] == {"1000": {"type": "entrance", "source": SECRET}}
    changed = boss.request("PATCH", f"{CAMERAS}/1000", json={"type": "gate"})
    assert changed.json() == {"id": "1000", "type": "gate", "source": NAMED}
    assert order(boss).content["cameras"] == {"1000": {"type": "gate", "source": SECRET}}
    assert boss.get(CAMERAS).json() == {"cameras": [changed.json()], "discovered": []}
    assert boss.request("DELETE", f"{CAMERAS}/1000").status_code == 204
    assert order(boss).content["cameras"] == {}
    assert boss.request("DELETE", f"{CAMERAS}/1000").status_code == 404
    entries = container_of(boss).accounts.audit_log.entries(subject=f"node:{EDGE}")
    assert [entry.action.rpartition(".")[2] for entry in entries] == ["remove", "change", "add"]
    assert "secret" not in str([entry.detail for entry in entries])


def test_cameras_that_answered_on_the_network_are_listed_for_administrators_to_add(boss: Within) -> None:
    camera = DiscoveredCamera("10.0.0.7", "http://10.0.0.7/onvif/device_service", "Front <door>", "X-100")
    nodes = container_of(boss).nodes
    nodes.report(EDGE, NodeReport(discovered=(camera,)), address="10.0.0.9", version="1", now=now())
    assert boss.get(CAMERAS).json()["discovered"] == [vars(camera)]
    page = boss.get(PAGE).text
    assert "Front &lt;door&gt;" in page and "X-100" in page
    assert f'href="{PAGE}?source=rtsp%3A//USER%3APASSWORD%4010.0.0.7/#camera-type"' in page
    chosen = boss.get(PAGE, params={"source": "rtsp://USER:PASSWORD@10.0.0.7/"}).text
    assert 'name="source" value="rtsp://USER:PASSWORD@10.0.0.7/"' in chosen
    accounts = container_of(boss).accounts
    accounts.users.create("bob", Role.USER, by="test")
    _, token = accounts.tokens.issue("bob", by="test")
    bob = Within(boss.app, Authorization=f"Bearer {token}", **OURS)
    assert bob.get(PAGE).status_code == 200
    assert "10.0.0.7" not in bob.get(PAGE).text + bob.get(f"/neptune/nodes/{EDGE}").text


def test_what_can_be_no_camera_and_one_that_was_not_added_here_are_refused(boss: Within) -> None:
    for body in ({"type": "x", "source": "stream"}, {"type": " ", "source": SECRET}, {"type": "x"}):
        assert boss.post(CAMERAS, json=body).status_code == 422, body
    refused = boss.request("PATCH", f"{CAMERAS}/0", json={"type": "x"})
    assert refused.status_code == 404 and "--video" in refused.json()["error"]["hint"]
    assert boss.post("/neptune/nodes/edge9/cameras", json={"type": "x", "source": SECRET}).status_code == 404
    assert boss.get(CAMERAS).json() == {"cameras": [], "discovered": []}


def test_a_camera_that_a_job_reads_stays(boss: Within) -> None:
    camera = boss.post(CAMERAS, json={"type": "entrance", "source": SECRET}).json()
    nodes = container_of(boss).nodes
    with container_of(boss).database.write() as conn:
        (job,) = (one for one in nodes.pending(EDGE) if "video_id" in one.content)
        content = {**job.content, "video_id": camera["id"]}
        nodes.order(conn, EDGE, job.key, namespace="", name=job.name, generation=job.generation + 1, content=content)
    kept = boss.request("DELETE", f"{CAMERAS}/1000")
    assert (kept.status_code, kept.json()["error"]["code"]) == (409, "CAMERA_IN_USE")
    assert "A video job reads the camera 1000" in boss.post(f"{PAGE}/cameras/1000/remove").text
    assert len(boss.get(CAMERAS).json()["cameras"]) == 1


def test_a_node_with_nothing_but_cameras_can_be_removed(boss: Within) -> None:
    nodes = container_of(boss).nodes
    nodes.register("yard", Side.EDGE, now=now())
    nodes.cameras.add("yard", "gate", SECRET, by="boss")
    nodes.remove("yard")
    assert nodes.find("yard") is None
    with pytest.raises(NodeBusy):
        nodes.remove(EDGE)


def test_the_page_adds_changes_and_removes_one_and_never_shows_its_password(boss: Within) -> None:
    sent = boss.post(f"{PAGE}/cameras", data={"type": "entrance", "source": SECRET})
    assert (sent.status_code, sent.headers["location"]) == (303, f"{PAGE}?note=camera-added#cameras")
    page = boss.get(PAGE).text
    assert NAMED in page and "secret" not in page
    boss.post(f"{PAGE}/cameras/1000", data={"type": "gate", "source": ""})
    assert order(boss).content["cameras"] == {"1000": {"type": "gate", "source": SECRET}}
    boss.post(f"{PAGE}/cameras/1000", data={"type": "gate", "source": "/videos/gate.mp4"})
    assert order(boss).content["cameras"] == {"1000": {"type": "gate", "source": "/videos/gate.mp4"}}
    wrong = boss.post(f"{PAGE}/cameras", data={"type": "yard", "source": "yard.mp4"})
    assert wrong.status_code == 422 and 'value="yard.mp4"' in wrong.text and "no address of a camera" in wrong.text
    assert boss.post(f"{PAGE}/cameras/1000", data={"type": "", "source": ""}).status_code == 422
    assert boss.post(f"{PAGE}/cameras/1000/remove").status_code == 303
    assert "/cameras/1000" not in boss.get(PAGE).text


def test_the_command_adds_changes_lists_and_removes_one(boss: Within, monkeypatch: pytest.MonkeyPatch) -> None:
    _, token = container_of(boss).accounts.tokens.issue("boss", by="test")
    monkeypatch.setenv("MODELMILL_TOKEN", token)
    with served(boss.app) as url:

        def run(command: str, *arguments: str, code: int = 0) -> str:
            ran = CliRunner().invoke(commands, ["cameras", command, EDGE, *arguments, "--url", url])
            assert ran.exit_code == code, ran.output
            return ran.stdout

        assert run("list").startswith("None was added.")
        assert run("add", f"entrance={SECRET}") == "1000\n"
        assert run("change", "1000", "--type", "gate").split() == ["1000", "gate", NAMED]
        assert run("list").split() == ["1000", "gate", NAMED]
        run("add", SECRET, code=1)
        run("change", "1000", code=1)
        assert run("remove", "1000") == ""
        run("remove", "1000", code=1)
