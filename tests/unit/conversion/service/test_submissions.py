"""Is a job taken in? Not for a toolchain that no living worker has."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.bootstrap.container import Container
from app.conversion.errors import ToolchainUnserved
from app.conversion.options import ToolchainName
from app.conversion.toolchains.installed import installed
from app.settings import Settings
from tests.harness.users import within

KNERON, HOST = ToolchainName.KNERON, ToolchainName.HOST


def announce(container: Container, queue: str, *toolchains: str) -> None:
    heartbeat = {"queue": queue, "host": "h", "pid": 1, "started_at": 1e9, "job_id": None, "toolchains": toolchains}
    container.store.announce(f"h/{queue}/{'-'.join(toolchains)}", json.dumps(heartbeat), 20)


def test_a_toolchain_that_no_worker_of_a_stage_has_is_refused_with_what_to_do(container: Container) -> None:
    announce(container, "onnx", "host", "kneron")
    announce(container, "bie", "host")
    with pytest.raises(ToolchainUnserved) as refused:
        container.conversion.submissions.admission.check("alice", KNERON)
    assert refused.value.message == "No worker of stage BIE has the toolchain kneron now."
    assert "start a worker" in refused.value.hint
    assert (refused.value.status, refused.value.can_retry) == (409, True)
    container.conversion.submissions.admission.check("alice", HOST)


def test_one_worker_that_has_it_is_enough(container: Container) -> None:
    for stage in ("onnx", "bie", "nef"):
        announce(container, stage, "host")
        announce(container, stage, "host", "kneron")
    container.conversion.submissions.admission.check("alice", KNERON)


def test_while_no_worker_of_a_stage_lives_nothing_is_known_of_it_and_jobs_wait(container: Container) -> None:
    """A system that is just starting takes jobs in."""
    container.conversion.submissions.admission.check("alice", KNERON)
    announce(container, "onnx", "kneron")
    container.conversion.submissions.admission.check("alice", KNERON)


def test_page_and_api_say_it_before_anything_is_uploaded_in_vain(settings: Settings, container: Container) -> None:
    announce(container, "onnx", "host")
    with within(settings.model_copy(update={"toolchains": (HOST, KNERON)})) as web:
        body = {"model_key": "m", "quant_key": "q", "options": {"toolchain": "kneron", "platform": "720"}}
        answer = web.post("/jobs", json=body)
        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "TOOLCHAIN_UNSERVED")
        assert answer.headers["retry-after"]
        page = web.get("/ui/jobs/new", headers={"Accept": "text/html"}).text
        assert 'value="kneron" disabled' in page and "No worker has it now." in page
        assert 'value="host" checked' in page
        announce(container, "onnx", "kneron")
    with within(settings.model_copy(update={"toolchains": (HOST, KNERON)})) as web:
        assert "No worker has it now." not in web.get("/ui/jobs/new", headers={"Accept": "text/html"}).text


def test_a_host_has_the_vendors_toolchain_only_where_its_interpreter_is(tmp_path: Path) -> None:
    python = tmp_path / "python"
    assert installed((HOST, KNERON), kneron_python=python) == [HOST]
    python.touch()
    assert installed((HOST, KNERON), kneron_python=python) == [HOST]
    python.chmod(0o755)
    assert installed((HOST, KNERON), kneron_python=python) == [HOST, KNERON]
