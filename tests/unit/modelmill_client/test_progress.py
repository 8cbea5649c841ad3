"""How a job is shown to whoever waits for it."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from modelmill_client import Job, JobFailed, NoImages
from modelmill_client.event_stream import events_of
from modelmill_client.inputs import packed
from modelmill_client.progress import ProgressView, html_of, line_of
from modelmill_client.quality import quality_of


def record(status: str, snr_db: float | None = None, passed: bool = True, **fields: Any) -> dict[str, Any]:
    summary = {} if snr_db is None else {"snr_db": snr_db, "cosine": 0.99, "passed": passed, "samples": 10}
    return {
        "job_id": "1",
        "name": "<yolo>",
        "status": status,
        "progress": 40,
        "stages": {"bie": {"summary": summary}},
        **fields,
    }


def test_lines_are_written_when_something_has_changed() -> None:
    stream = io.StringIO()
    view = ProgressView(stream)
    for one in (record("BIE"), record("BIE"), record("NEF", 21.26), record("COMPLETED", 21.26)):
        view.show(one)
    assert stream.getvalue().splitlines() == [
        "<yolo>  BIE  40 %",
        "<yolo>  NEF  40 %  21.3 dB  passed",
        "<yolo>  COMPLETED  21.3 dB  passed",
    ]


def test_a_notebook_shows_it_without_trusting_its_name() -> None:
    text = html_of(record("COMPLETED", 21.26))
    assert "&lt;yolo&gt;" in text
    assert "21.3 dB" in text
    assert "passed" in text
    assert Job(None, record("BIE"))._repr_html_().count("<svg") == 0  # type: ignore[arg-type]  # nothing is measured yet


def test_a_notebook_without_html_shows_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    class ZMQInteractiveShell: ...

    shown: list[Any] = []
    handle = SimpleNamespace(update=shown.append)
    display = SimpleNamespace(display=lambda first, **_: shown.append(first) or handle)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=ZMQInteractiveShell))
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    ProgressView().show(record("COMPLETED", 21.0))
    assert [repr(one) for one in shown] == ["", "<yolo>  COMPLETED  21.0 dB  passed"]
    assert shown[-1]._repr_html_() == html_of(record("COMPLETED", 21.0))


def test_a_notebook_draws_the_verdict_of_the_service() -> None:
    """A mean above the rule does not pass if one picture is too bad, and some jobs have another rule."""
    passed, missed = record("COMPLETED", 15.0), record("COMPLETED", 21.0, passed=False)
    passed["stages"]["bie"]["summary"]["rule_db"] = 12.0
    assert "required: 12 dB" in html_of(passed) and "#2a7" in html_of(passed)
    text = html_of(missed)
    assert "below the rule" in text and "#c60" in text and "required: 20 dB" in text
    assert line_of(missed) == "<yolo>  COMPLETED  21.0 dB  below the rule"


def test_quality_is_false_until_it_is_measured() -> None:
    assert not quality_of(record("ONNX"))
    quality = quality_of(record("NEF", 21.0))
    assert quality and quality.reaches(20) and not quality.reaches(22)


def test_a_job_that_failed_is_raised_with_its_code_and_hint() -> None:
    error = {
        "step": "bie",
        "reason": "out of memory",
        "code": "OUT_OF_MEMORY",
        "hint": "Use less.",
        "detail": {"mib": 3},
    }
    with pytest.raises(JobFailed, match="failed at BIE: out of memory") as raised:
        Job(None, record("FAILED", error=error)).raise_for_failure()  # type: ignore[arg-type]
    assert (raised.value.code, raised.value.hint, raised.value.detail) == ("OUT_OF_MEMORY", "Use less.", {"mib": 3})


def test_events_are_put_together_from_lines() -> None:
    lines = [": ping", "", "event: status", "data: {", "data:  1}", "", "data: x", ""]
    assert list(events_of(lines)) == [("status", "{\n 1}"), ("message", "x")]


def test_a_folder_becomes_one_zip_without_what_is_no_image(tmp_path: Path) -> None:
    (tmp_path / ".hidden").mkdir()
    for name in ("b.png", "a.JPG", "notes.txt", ".hidden/c.png"):
        (tmp_path / name).write_bytes(b"x")
    from zipfile import ZipFile

    with packed([tmp_path]) as archive:
        assert ZipFile(archive).namelist() == ["a.JPG", "b.png"]
    assert not archive.exists()


def test_a_folder_without_images_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(NoImages, match="no pictures and no arrays"), packed([tmp_path]):
        pass
    with pytest.raises(NoImages, match="are given"), packed([]):
        pass
    with pytest.raises(NoImages, match="there is no"), packed([tmp_path / "missing"]):
        pass
