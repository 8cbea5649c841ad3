"""`modelmill joint`, typed against the running web: what it says, what it refuses, and its exit codes."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import onnx
import onnxruntime
import pytest
import uvicorn
import yaml

from app import cli
from app.joint_inference.cli import running, services
from app.joint_inference.cli.demo.digits import draw_digits
from app.joint_inference.cli.demo.models import SMALL, probabilities, to_onnx, train
from app.joint_inference.cli.demo.scores import Answer, scores_of
from app.joint_inference.cli.demo.stand import forget_surroundings
from app.joint_inference.cli.services import parted
from app.kit.command import Exit
from app.kit.errors import BadRequest
from app.main import create_app
from app.settings import Settings
from app.wiring import Parts
from tests.harness.joint.nodes import Scene, helmet
from tests.harness.ports import free_port

NOBODY = "http://127.0.0.1:1"
COMMANDS = ["apply", "list", "show", "delete", "demo", "operator"]


def typed(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    """The exit code of `modelmill joint arguments`."""
    monkeypatch.setattr(sys, "argv", ["modelmill", "joint", *map(str, arguments)])
    monkeypatch.delenv("MODELMILL_URL", raising=False)
    try:
        return cli.main()
    except SystemExit as ended:
        return int(ended.code or 0)


@pytest.fixture
def web(settings: Settings) -> Iterator[str]:
    """The real one, where nobody has to sign in."""
    port = free_port()
    server = uvicorn.Server(uvicorn.Config(create_app(settings), port=port, log_config=None, ws="websockets-sansio"))
    thread = threading.Thread(target=server.run)
    thread.start()
    url = f"http://127.0.0.1:{port}"
    while not server.started:
        assert thread.is_alive(), "the web did not start"
        time.sleep(0.01)
    yield url
    server.should_exit = True
    thread.join()


@pytest.fixture
def scene(parts: Parts, settings: Settings, web: str) -> Scene:
    return Scene(parts, user=settings.local_user)


def written(folder: Path, *resources: Any) -> Path:
    file = folder / "services.yaml"
    file.write_text(yaml.safe_dump_all(resources))
    return file


# --- usage ----------------------------------------------------------------------------------------
def test_help_names_the_commands(monkeypatch, capsys):
    assert typed(monkeypatch, "--help") == Exit.OK
    said = capsys.readouterr().out
    for word in (*COMMANDS, "Exit codes"):
        assert word in said


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(monkeypatch, capsys, command):
    assert typed(monkeypatch, command, "--help") == Exit.OK
    assert "Usage" in capsys.readouterr().out


@pytest.mark.parametrize("command", [["list"], ["show", "helmet"], ["delete", "helmet"]])
def test_when_nothing_answers_one_sentence_says_how_to_start_it(monkeypatch, capsys, command):
    assert typed(monkeypatch, *command, "--url", NOBODY) == Exit.UNREACHABLE
    assert "modelmill up" in capsys.readouterr().err


def test_a_file_that_is_not_there_is_not_found_before_anything_is_asked(monkeypatch, capsys, tmp_path):
    assert typed(monkeypatch, "apply", "-f", tmp_path / "no.yaml", "--url", NOBODY) == Exit.NOT_FOUND
    assert "there is no file" in capsys.readouterr().err


def test_a_folder_is_no_file(monkeypatch, tmp_path):
    assert typed(monkeypatch, "apply", "-f", tmp_path, "--url", NOBODY) == Exit.BAD_INPUT


@pytest.mark.parametrize("text", ["", "# nothing\n", "a: [1\n", "\x00"])
def test_what_holds_no_service_is_refused_before_anything_is_asked(monkeypatch, tmp_path, text):
    (tmp_path / "s.yaml").write_text(text)
    assert typed(monkeypatch, "apply", "-f", tmp_path / "s.yaml", "--url", NOBODY) == Exit.BAD_INPUT


@pytest.mark.parametrize("name", ["", "a/b/c", "a/"])
def test_a_name_is_a_namespace_and_a_name(name):
    with pytest.raises(BadRequest):
        parted(name)


def test_the_namespace_may_be_left_out():
    assert (parted("helmet"), parted("shop/helmet")) == (("default", "helmet"), ("shop", "helmet"))


# --- against the web ------------------------------------------------------------------------------
def test_several_documents_are_applied_and_applied_again(monkeypatch, capsys, tmp_path, web, scene):
    file = written(tmp_path, helmet("one"), helmet("two", namespace="shop"))
    assert typed(monkeypatch, "apply", "-f", file, "--url", web) == Exit.OK
    assert capsys.readouterr().out.splitlines() == ["default/one created", "shop/two created"]
    assert typed(monkeypatch, "apply", "-f", file, "--url", web) == Exit.OK
    assert capsys.readouterr().out.splitlines() == ["default/one configured", "shop/two configured"]


def test_stdin_is_a_file_too(monkeypatch, capsys, web, scene):
    class Stdin:
        buffer = io.BytesIO(json.dumps(helmet()).encode())

    monkeypatch.setattr(sys, "stdin", Stdin)
    assert typed(monkeypatch, "apply", "-f", "-", "--json", "--url", web) == Exit.OK
    (record,) = json.loads(capsys.readouterr().out)
    assert record["resource"]["metadata"]["name"] == "helmet"


def test_a_service_that_is_none_is_told_by_the_path_of_what_is_wrong(monkeypatch, capsys, tmp_path, web, scene):
    wrong = helmet()
    del wrong["spec"]["cloudWorker"]["nodeName"]
    assert typed(monkeypatch, "apply", "-f", written(tmp_path, wrong), "--url", web) == Exit.BAD_INPUT
    assert "spec.cloudWorker" in capsys.readouterr().err


def test_all_that_is_wrong_with_a_service_is_told_a_line_each(monkeypatch, capsys, tmp_path, web, scene):
    wrong = helmet()
    del wrong["spec"]["cloudWorker"]["nodeName"]
    del wrong["spec"]["edgeWorker"]["model"]
    typed(monkeypatch, "apply", "-f", written(tmp_path, wrong), "--url", web)
    said = capsys.readouterr().err
    assert said.count("spec.cloudWorker") == 1
    assert said.count("spec.edgeWorker") == 1


def test_the_list_shows_state_and_counts_and_can_be_narrowed(monkeypatch, capsys, tmp_path, web, scene):
    typed(monkeypatch, "apply", "-f", written(tmp_path, helmet("one"), helmet("two", namespace="shop")), "--url", web)
    scene.settle()
    capsys.readouterr()
    assert typed(monkeypatch, "list", "--url", web) == Exit.OK
    shown = capsys.readouterr().out
    assert "default/one" in shown and "shop/two" in shown and "Running" in shown and "Serving" in shown
    typed(monkeypatch, "list", "-n", "shop", "--url", web)
    shown = capsys.readouterr().out
    assert "shop/two" in shown and "default/one" not in shown
    typed(monkeypatch, "list", "--state", "failed", "--url", web)
    assert capsys.readouterr().out == "There are no services.\n"
    typed(monkeypatch, "list", "-q", "on", "--json", "--url", web)
    assert [record["name"] for record in json.loads(capsys.readouterr().out)] == ["one"]


def test_show_tells_workers_conditions_and_the_last_words_of_one_that_failed(monkeypatch, capsys, tmp_path, web, scene):
    typed(monkeypatch, "apply", "-f", written(tmp_path, helmet()), "--url", web)
    scene.settle()
    scene.fail("edge", log=("Traceback", "ValueError: it cannot be"), exit_code=3)
    scene.settle()
    capsys.readouterr()
    assert typed(monkeypatch, "show", "helmet", "--url", web) == Exit.OK
    shown = capsys.readouterr().out
    for words in (
        "state      Failed  WorkerFailed", "worker     edge edgeworker", "exit code 3", "ValueError: it cannot be",
        "1 active, 1 failed", "algorithm  IBT", "condition  Running=False",
    ):  # fmt: skip
        assert words in shown
    assert typed(monkeypatch, "show", "default/helmet", "--json", "--url", web) == Exit.OK
    assert json.loads(capsys.readouterr().out)["resource"]["status"]["failed"] == 1


def test_one_that_is_not_there_is_not_found(monkeypatch, web, scene):
    assert typed(monkeypatch, "show", "nobody", "--url", web) == Exit.NOT_FOUND
    assert typed(monkeypatch, "show", "nobody", "--watch", "--url", web) == Exit.NOT_FOUND
    assert typed(monkeypatch, "delete", "nobody", "--url", web) == Exit.NOT_FOUND


def test_watching_goes_on_until_the_service_is_gone(monkeypatch, capsys, tmp_path, web, scene):
    monkeypatch.setattr(services, "POLL_S", 0.01)
    typed(monkeypatch, "apply", "-f", written(tmp_path, helmet()), "--url", web)
    looks = iter([scene.settle, lambda: httpx.delete(f"{web}/api/v2/services/default/helmet"), scene.settle])
    sleep = time.sleep

    def happen(seconds: float) -> None:
        next(looks, lambda: None)()
        sleep(seconds)

    monkeypatch.setattr(services.time, "sleep", happen)
    assert typed(monkeypatch, "show", "helmet", "--watch", "--url", web) == Exit.OK
    shown = capsys.readouterr().out
    assert [word for word in ("Pending", "Running", "Terminating", "is gone") if word not in shown] == []


def test_delete_waits_until_its_workers_have_ended(monkeypatch, capsys, tmp_path, web, scene):
    monkeypatch.setattr(services, "POLL_S", 0.01)
    typed(monkeypatch, "apply", "-f", written(tmp_path, helmet()), "--url", web)
    scene.settle()
    scene.go_away("edge0")
    assert typed(monkeypatch, "delete", "helmet", "--timeout", 0.1, "--url", web) == Exit.FAILED
    assert "still being deleted" in capsys.readouterr().err
    scene.come_back("edge0")
    scene.settle()
    typed(monkeypatch, "apply", "-f", written(tmp_path, helmet()), "--url", web)
    capsys.readouterr()
    assert typed(monkeypatch, "delete", "helmet", "--no-wait", "--url", web) == Exit.OK
    assert capsys.readouterr().out == "default/helmet is being deleted\n"


# --- the operator's command -----------------------------------------------------------------------
@pytest.mark.parametrize("where", [[], ["-A", "-n", "default"]])
def test_the_operator_must_know_where_to_look(monkeypatch, capsys, where):
    assert typed(monkeypatch, "operator", "--user", "alice", *where) == Exit.BAD_INPUT
    assert "--all-namespaces" in capsys.readouterr().err


def test_without_kopf_the_operator_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setattr(running.importlib.util, "find_spec", lambda name: None)
    assert typed(monkeypatch, "operator", "--user", "alice", "-A") == Exit.BAD_INPUT
    assert "modelmill[k8s]" in capsys.readouterr().err


# --- the demonstration ----------------------------------------------------------------------------
def test_the_same_seed_draws_the_same_digits_and_another_one_others():
    first, again, other = (draw_digits(5, seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(first.pictures, again.pictures)
    assert not np.array_equal(first.pictures, other.pictures)


def test_a_classifier_learns_the_digits_and_its_onnx_says_the_same():
    drawn, held_out = draw_digits(1500, seed=1), draw_digits(200, seed=2)
    layers = train(drawn, SMALL, seed=0)
    wanted = probabilities(layers, held_out)
    assert np.mean(wanted.argmax(axis=1) == held_out.truth) > 0.6
    content = to_onnx(layers)
    onnx.checker.check_model(onnx.load_from_string(content))
    session = onnxruntime.InferenceSession(content)
    for number, picture in enumerate(held_out.pictures[:20]):
        (given,) = session.run(None, {"input": picture[None, None].astype(np.float32) / 255})
        assert np.allclose(given[0], wanted[number], atol=1e-5)


def answer(*, edge: bool, cloud: bool, goes_up: bool) -> Answer:
    said = {True: 1, False: 0}
    final = cloud if goes_up else edge
    return Answer(1, said[edge], said[cloud], said[final], goes_up, False, 2.0, 1.0, 9.0 if goes_up else None)


def test_it_is_worth_it_when_the_hard_ones_go_up():
    easy = [answer(edge=True, cloud=True, goes_up=False)] * 7
    hard = [answer(edge=False, cloud=True, goes_up=True)] * 3
    scores = scores_of([*easy, *hard])
    assert (scores.edge.accuracy, scores.cloud.accuracy, scores.joint.accuracy) == (0.7, 1.0, 1.0)
    assert (scores.joint.upload, scores.random.accuracy) == (0.3, pytest.approx(0.79))
    assert scores.is_worth_it


@pytest.mark.parametrize(
    "answers",
    [
        [answer(edge=False, cloud=True, goes_up=False)] * 5 + [answer(edge=True, cloud=True, goes_up=True)] * 5,
        [answer(edge=False, cloud=True, goes_up=True)] * 6 + [answer(edge=True, cloud=True, goes_up=False)] * 4,
    ],
    ids=["the wrong ones go up", "too many go up"],
)
def test_it_is_not_worth_it_otherwise(answers):
    assert not scores_of(answers).is_worth_it


def test_the_demonstration_forgets_the_settings_of_another_installation(monkeypatch):
    monkeypatch.setenv("MODELMILL_DATABASE_URL", "postgresql://production")
    monkeypatch.setenv("MODELMILL_SFTP", "sftpgo")
    forget_surroundings()
    import os

    assert {name: value for name, value in os.environ.items() if name.startswith("MODELMILL_")} == {
        "MODELMILL_SFTP": "off"
    }


@pytest.mark.slow
def test_the_demonstration_shows_that_it_is_worth_it_and_leaves_nothing_behind(tmp_path):
    ran = subprocess.run(
        [sys.executable, "-m", "app.cli", "joint", "demo", "--once"], capture_output=True, text=True, timeout=170,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "TMPDIR": str(tmp_path)}, check=False,
    )  # fmt: skip
    assert ran.returncode == Exit.OK, ran.stdout + ran.stderr
    assert "edge only" in ran.stdout and "Everything is stopped." in ran.stdout
    assert list(tmp_path.glob("modelmill-joint-*")) == []


@pytest.mark.slow
def test_the_demonstration_can_be_interrupted_at_any_time(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-m", "app.cli", "joint", "demo"], stdout=subprocess.PIPE, text=True,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "TMPDIR": str(tmp_path), "PYTHONUNBUFFERED": "1"},
    ) as demo:  # fmt: skip
        assert demo.stdout is not None
        for line in demo.stdout:
            if line.startswith("Service default/digits"):
                break
        demo.send_signal(signal.SIGINT)
        assert "Everything is stopped." in demo.stdout.read()
        assert demo.wait(60) == Exit.OK
    assert list(tmp_path.glob("modelmill-joint-*")) == []
