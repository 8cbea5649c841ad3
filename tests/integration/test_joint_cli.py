"""`modelmill joint`, typed against the running web: what it says and does, and its exit codes."""

from __future__ import annotations

import io
import json
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.bootstrap.container import Container
from app.joint_inference.cli import services
from app.joint_inference.service.row_report import RowReport
from app.kit.cli.command import Exit
from app.main import create_app
from app.model_registry.client import ModelsClient
from app.settings import Settings
from tests.harness.api import classifying_model, small_model
from tests.harness.command_line import typed_in
from tests.harness.joint.nodes import Env, helmet
from tests.harness.web import served

typed = typed_in("joint")


@pytest.fixture
def web(settings: Settings) -> Iterator[str]:
    """The real one, where nobody has to sign in."""
    with served(create_app(settings)) as url:
        yield url


@pytest.fixture
def env(container: Container, settings: Settings, web: str) -> Env:
    return Env(container, user=settings.local_user)


def written(folder: Path, *resources: Any) -> Path:
    file = folder / "services.yaml"
    file.write_text(yaml.safe_dump_all(resources))
    return file


def test_several_documents_are_applied_and_applied_again(monkeypatch, capsys, tmp_path, web, env):
    file = written(tmp_path, helmet("one"), helmet("two", namespace="shop"))
    assert typed(monkeypatch, "apply", "-f", file, "--url", web) == Exit.OK
    assert capsys.readouterr().out.splitlines() == ["default/one created", "shop/two created"]
    assert typed(monkeypatch, "apply", "-f", file, "--url", web) == Exit.OK
    assert capsys.readouterr().out.splitlines() == ["default/one configured", "shop/two configured"]


def model_of_sedna(name: str, url: str, **spec: str) -> dict[str, Any]:
    of_sedna = {"apiVersion": "sedna.io/v1alpha1", "kind": "Model", "metadata": {"name": name}}
    return {**of_sedna, "spec": {"url": url, **spec}}


def test_sednas_models_are_those_of_the_service_beside_them(monkeypatch, capsys, tmp_path, web, env):
    (tmp_path / "big.onnx").write_bytes(small_model())
    file = written(tmp_path, helmet("one"), model_of_sedna("big", str(tmp_path / "big.onnx"), format="onnx"))
    for model, service in (("created", "created"), ("unchanged", "configured")):
        assert typed(monkeypatch, "apply", "-f", file, "--url", web) == Exit.OK
        assert capsys.readouterr().out.splitlines() == [f"model big {model}", f"default/one {service}"]
    (tmp_path / "big.onnx").write_bytes(classifying_model())
    assert typed(monkeypatch, "apply", "-f", file, "--url", web) == Exit.OK
    assert capsys.readouterr().out.splitlines()[0] == "model big configured"
    with ModelsClient(web) as models:
        assert [one["version"] for one in models.versions("big")["versions"]] == [2, 1]


def test_the_model_of_sedna_is_downloaded_from_its_url(monkeypatch, capsys, tmp_path, web, env):
    async def give(_: Request) -> Response:
        return Response(small_model())

    with served(Starlette(routes=[Route("/big.onnx", give)])) as url:
        file = written(tmp_path, model_of_sedna("big", f"{url}/big.onnx?v=1"), model_of_sedna("b", f"{url}/b.onnx"))
        assert typed(monkeypatch, "apply", "-f", file, "--url", web) == Exit.BAD_INPUT
    captured = capsys.readouterr()
    assert captured.out.splitlines() == ["model big created"]
    assert "The file of the model b cannot be fetched" in captured.err and "404" in captured.err


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("/data/m.pb", "has the format pb, and models run as ONNX"),
        ("/data/none.onnx", "is not on this machine: /data/none.onnx"),
        ("s3://models/m.onnx", "cannot be fetched from s3://"),
        ("http://[/m.onnx", "has no valid URL"),
    ],
)
def test_a_model_of_sedna_that_cannot_be_fetched_is_refused_unless_it_is_registered(
    monkeypatch, capsys, tmp_path, web, env, url, problem
):
    file = written(tmp_path, helmet("one"), model_of_sedna("big", url))
    assert typed(monkeypatch, "apply", "-f", file, "--url", web) == Exit.BAD_INPUT
    captured = capsys.readouterr()
    assert captured.out == "" and f"The file of the model big {problem}" in captured.err
    assert "modelmill models add big --file model.onnx" in captured.err
    (tmp_path / "big.onnx").write_bytes(small_model())
    with ModelsClient(web) as models:
        models.bring("big", tmp_path / "big.onnx", decoder="auto", labels=[])
    assert typed(monkeypatch, "apply", "-f", file, "--url", web) == Exit.OK
    captured = capsys.readouterr()
    assert captured.out.splitlines() == ["model big unchanged", "default/one created"]
    assert problem in captured.err and "the registered version 1 is used" in captured.err


def test_a_model_of_sedna_names_its_file(monkeypatch, capsys, tmp_path, web, env):
    assert typed(monkeypatch, "apply", "-f", written(tmp_path, model_of_sedna("big", "")), "--url", web) != Exit.OK
    assert "$.spec.url: is missing" in capsys.readouterr().err


def test_stdin_is_a_file_too(monkeypatch, capsys, web, env):
    class Stdin:
        buffer = io.BytesIO(json.dumps(helmet()).encode())

    monkeypatch.setattr(sys, "stdin", Stdin)
    assert typed(monkeypatch, "apply", "-f", "-", "--json", "--url", web) == Exit.OK
    (record,) = json.loads(capsys.readouterr().out)
    assert record["resource"]["metadata"]["name"] == "helmet"


def test_a_service_that_is_none_is_told_by_the_path_of_what_is_wrong(monkeypatch, capsys, tmp_path, web, env):
    wrong = helmet()
    del wrong["spec"]["cloudWorker"]["nodeName"]
    assert typed(monkeypatch, "apply", "-f", written(tmp_path, wrong), "--url", web) == Exit.BAD_INPUT
    assert "spec.cloudWorker" in capsys.readouterr().err


def test_all_that_is_wrong_with_a_service_is_told_a_line_each(monkeypatch, capsys, tmp_path, web, env):
    wrong = helmet()
    del wrong["spec"]["cloudWorker"]["nodeName"]
    del wrong["spec"]["edgeWorker"]["model"]
    typed(monkeypatch, "apply", "-f", written(tmp_path, wrong), "--url", web)
    stderr = capsys.readouterr().err
    assert stderr.count("spec.cloudWorker") == 1
    assert stderr.count("spec.edgeWorker") == 1


def test_the_list_shows_state_and_counts_and_can_be_narrowed(monkeypatch, capsys, tmp_path, web, env):
    typed(monkeypatch, "apply", "-f", written(tmp_path, helmet("one"), helmet("two", namespace="shop")), "--url", web)
    env.settle()
    capsys.readouterr()
    assert typed(monkeypatch, "list", "--url", web) == Exit.OK
    shown = capsys.readouterr().out
    assert "default/one" in shown and "shop/two" in shown and "Running" in shown and "Serving (" in shown
    typed(monkeypatch, "list", "-n", "shop", "--url", web)
    shown = capsys.readouterr().out
    assert "shop/two" in shown and "default/one" not in shown
    typed(monkeypatch, "list", "--state", "failed", "--url", web)
    assert capsys.readouterr().out == "There are no services.\n"
    typed(monkeypatch, "list", "-q", "on", "--json", "--url", web)
    assert [record["name"] for record in json.loads(capsys.readouterr().out)] == ["one"]


def test_show_tells_workers_conditions_and_the_last_words_of_one_that_failed(monkeypatch, capsys, tmp_path, web, env):
    typed(monkeypatch, "apply", "-f", written(tmp_path, helmet()), "--url", web)
    env.settle()
    env.fail("edge", log=("Traceback", "ValueError: it cannot be"), exit_code=3)
    env.settle()
    capsys.readouterr()
    assert typed(monkeypatch, "show", "helmet", "--url", web) == Exit.OK
    shown = capsys.readouterr().out
    for words in (
        "state      Failed  WorkerFailed",
        "worker     edge edgeworker",
        "exit code 3",
        "ValueError: it cannot be",
        "1 active, 1 failed",
        "algorithm  IBT",
        "condition  Running=False",
    ):
        assert words in shown
    assert typed(monkeypatch, "show", "default/helmet", "--json", "--url", web) == Exit.OK
    told = json.loads(capsys.readouterr().out)
    assert told["resource"]["status"]["failed"] == 1
    sha256 = env.container.models.get(env.user, "small-model").card.sha256
    assert told["workers"][0]["wanted"] == {"model": "small-model", "version": 1, "sha256": sha256}


def test_one_that_is_not_there_is_not_found(monkeypatch, web, env):
    assert typed(monkeypatch, "show", "nobody", "--url", web) == Exit.NOT_FOUND
    assert typed(monkeypatch, "show", "nobody", "--watch", "--url", web) == Exit.NOT_FOUND
    assert typed(monkeypatch, "delete", "nobody", "--url", web) == Exit.NOT_FOUND


def test_watching_goes_on_until_the_service_is_gone(monkeypatch, capsys, tmp_path, web, env):
    monkeypatch.setattr(services, "POLL_S", 0.01)
    typed(monkeypatch, "apply", "-f", written(tmp_path, helmet()), "--url", web)
    delete = partial(httpx.delete, f"{web}/api/v2/services/default/helmet")
    steps = deque([("Pending", env.settle), ("Running", delete), ("Terminating", env.settle)])
    shown, sleep = "", time.sleep

    def happen(seconds: float) -> None:
        nonlocal shown
        if threading.current_thread() is threading.main_thread():  # others of this process sleep, too
            shown += capsys.readouterr().out
            if steps and steps[0][0] in shown:  # a look that failed for want of time has shown nothing
                steps.popleft()[1]()
        sleep(seconds)

    monkeypatch.setattr(services.time, "sleep", happen)
    assert typed(monkeypatch, "show", "helmet", "--watch", "--url", web) == Exit.OK
    shown += capsys.readouterr().out
    assert [word for word in ("Pending", "Running", "Terminating", "is gone") if word not in shown] == []


def test_delete_waits_until_its_workers_have_ended(monkeypatch, capsys, tmp_path, web, env):
    monkeypatch.setattr(services, "POLL_S", 0.01)
    typed(monkeypatch, "apply", "-f", written(tmp_path, helmet()), "--url", web)
    env.settle()
    env.go_away("edge0")
    assert typed(monkeypatch, "delete", "helmet", "--timeout", 0.1, "--url", web) == Exit.FAILED
    assert "still being deleted" in capsys.readouterr().err
    env.come_back("edge0")
    env.settle()
    typed(monkeypatch, "apply", "-f", written(tmp_path, helmet()), "--url", web)
    capsys.readouterr()
    assert typed(monkeypatch, "delete", "helmet", "--no-wait", "--url", web) == Exit.OK
    assert capsys.readouterr().out == "default/helmet is being deleted\n"


def test_rules_are_given_by_a_file_and_events_are_printed(monkeypatch, capsys, tmp_path, web, env):
    typed(monkeypatch, "apply", "-f", written(tmp_path, helmet("one")), "--url", web)
    env.settle()
    file = tmp_path / "rules.json"
    file.write_text(json.dumps({"rules": [{"name": "anything", "schedule": {"start": "00:00"}}]}))
    capsys.readouterr()
    assert typed(monkeypatch, "rules", "one", file, "--url", web) == Exit.OK
    assert json.loads(capsys.readouterr().out)["rules"][0]["schedule"]["timezone"] == "UTC"
    (service,) = env.container.joint.services.all(env.user)[0]
    row = {"size": [640, 480], "bbox": [[1.0, 2.0, 30.0, 40.0]], "labels": ["person"], "scores": [0.9]}
    report = RowReport(run="first", batch=1, rows=[row])
    env.container.joint.reports.add_rows("edge0", service.uid, report, now=env.now)
    assert typed(monkeypatch, "rule-events", "default/one", "--url", web) == Exit.OK
    assert "anything  person  (frame 1)" in capsys.readouterr().out
