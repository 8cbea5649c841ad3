"""Is a job taken in? Not for a toolchain that no living worker has."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from app.bootstrap.container import Container
from app.conversion import object_keys
from app.conversion.errors import ToolchainUnserved
from app.conversion.model import JobRecord
from app.conversion.options import Options, ToolchainName
from app.conversion.service.submissions import Submission
from app.conversion.toolchains.installed import list_installed
from app.kit.errors import BadInput
from app.settings import Settings
from tests.harness.api import png, small_model
from tests.harness.users import within

KNERON, HOST = ToolchainName.KNERON, ToolchainName.HOST


def announce(container: Container, queue: str, *toolchains: str) -> None:
    heartbeat = {"queue": queue, "host": "h", "pid": 1, "started_at": 1e9, "job_id": None, "toolchains": toolchains}
    container.store.announce(f"h/{queue}/{'-'.join(toolchains)}", json.dumps(heartbeat), 3600)


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


@pytest.mark.slow
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
    assert list_installed((HOST, KNERON), kneron_python=python) == [HOST]
    python.touch()
    assert list_installed((HOST, KNERON), kneron_python=python) == [HOST]
    python.chmod(0o755)
    assert list_installed((HOST, KNERON), kneron_python=python) == [HOST, KNERON]


def submit_while_written(
    container: Container, monkeypatch: pytest.MonkeyPatch, first: bytes, later: bytes
) -> JobRecord:
    """Uploads a model and writes another one to the same key while the first is checked, as a signed link allows."""
    uploads, submissions = container.conversion.uploads, container.conversion.submissions
    with uploads.new("alice") as upload_id:
        model = uploads.store_model(upload_id, [first]).key
        images = object_keys.upload(upload_id, object_keys.IMAGES)
        container.objects.put(images, [png(0)])
    check = submissions.intake.run

    def checked(*arguments: Any) -> dict[str, Any]:
        container.objects.put(model, [later])
        return check(*arguments)

    monkeypatch.setattr(submissions.intake, "run", checked)
    return submissions.submit(Submission(model, images, owner="alice", options=Options()))


def test_what_runs_is_what_was_checked(container: Container, monkeypatch: pytest.MonkeyPatch) -> None:
    record = submit_while_written(container, monkeypatch, small_model(), b"not checked")
    kept = record.artifacts["model.onnx"]
    stored = b"".join(container.objects.read(kept.key))
    assert stored == small_model() and kept.sha256 == hashlib.sha256(stored).hexdigest()


def test_of_what_is_refused_nothing_stays(container: Container, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadInput):
        submit_while_written(container, monkeypatch, b"no model", small_model())
    assert not [*container.objects.list("jobs/"), *container.objects.list("owners/")]
