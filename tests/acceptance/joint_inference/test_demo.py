"""`modelmill joint demo`: the whole product with two nodes, from one command."""

from __future__ import annotations

import re
import signal
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from app.kit.cli.command import Exit
from tests.harness.camera import camera
from tests.harness.demonstration import demonstration, until_it_says
from tests.harness.joint.deployment import JointDeployment
from tests.harness.until import until

OURS = {"Sec-Fetch-Site": "same-origin"}
pytestmark = pytest.mark.slow


def test_it_shows_that_it_is_worth_it_and_goes_on_until_it_is_interrupted(tmp_path: Path) -> None:
    with demonstration("joint", tmp_path) as (demo, output):
        shown = until_it_says("Ctrl-C ends everything", output)
        verdict = re.search(r"Joint inference keeps (\d+)% of what the cloud gains, and sends (\d+)% of the", shown)
        assert "edge only" in shown and verdict is not None, shown
        assert int(verdict[1]) >= 80 and int(verdict[2]) <= 50
        demo.send_signal(signal.SIGINT)
        assert "Everything is stopped." in output.read()
        assert demo.wait(60) == Exit.OK


@pytest.mark.exhaustive
def test_once_it_ends_by_itself_and_says_by_its_exit_code_whether_it_was_worth_it(tmp_path: Path) -> None:
    with demonstration("joint", tmp_path, "--once") as (demo, output):
        shown = output.read()
        assert demo.wait(60) == Exit.OK, shown
        assert "edge only" in shown and "Everything is stopped." in shown


@pytest.mark.exhaustive
def test_it_can_be_interrupted_while_its_service_starts(tmp_path: Path) -> None:
    with demonstration("joint", tmp_path) as (demo, output):
        until_it_says("Service default/digits", output)
        demo.send_signal(signal.SIGINT)
        assert "Everything is stopped." in output.read()
        assert demo.wait(60) == Exit.OK


@pytest.mark.exhaustive
def test_by_a_button_it_joins_the_product_that_runs_and_by_another_nothing_of_it_stays(tmp_path: Path) -> None:
    deployment = JointDeployment(tmp_path)
    with closing(deployment), httpx.Client(trust_env=False, timeout=60, headers=OURS) as client:
        deployment.start()
        client.base_url = httpx.URL(deployment.deployment.url)
        assert client.post("/ui/demonstrations/joint/start").status_code == 303
        until(lambda: client.get("/ui/demonstrations/live").text, lambda text: "Digits go to the edge worker" in text)
        shown = client.get("/ui/services/default/joint-demo-digits", headers={"Accept": "text/html"}).text
        assert "Both workers serve" in shown
        client.post("/ui/demonstrations/joint/stop")
        until(lambda: client.get("/ui/demonstrations/live").text, lambda text: text.count("Start the demonst") == 2)
        assert client.get("/neptune/nodes").json() == {"nodes": []}
        assert client.get("/api/v2/models").json()["models"] == []
        assert client.get("/ui/services/default/joint-demo-digits").status_code == 404


@pytest.mark.exhaustive
def test_a_camera_is_read_by_the_edge_worker_until_its_first_picture_is_answered(tmp_path: Path) -> None:
    """A camera of the network stands for that of the machine."""
    with (
        camera() as door,
        demonstration("joint", tmp_path, "--once", "--camera", "--device", door.url) as (demo, output),
    ):
        shown = output.read()
        assert demo.wait(60) == Exit.OK, shown
    assert "Opening the camera" in shown and "Service default/camera: Running  Serving" in shown
    assert re.search(r"^\d+ pictures, \d+ of them hard, \d+ answered by the cloud\.$", shown, re.MULTILINE), shown
    assert shown.splitlines()[-1] == "Everything is stopped."
