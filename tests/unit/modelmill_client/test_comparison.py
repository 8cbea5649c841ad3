"""Jobs side by side: what differs in their options, and the measures of all."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from modelmill_client import JobNotFound, Modelmill
from modelmill_client.comparison import compare_records


def record(options: dict[str, Any], summary: dict[str, Any] | None) -> dict[str, Any]:
    return {"job_id": "9fde157e-fc86", "options": options, "stages": {"bie": {"summary": summary}}}


def test_options_that_differ_and_all_measures_stand_one_value_a_job() -> None:
    comparison = compare_records(
        [
            record({"toolchain": "host", "quantization": {"goal": "none", "method": "minmax"}}, {"snr_db": 9.5}),
            record({"toolchain": "host", "quantization": {"goal": "snr>=20"}}, {"snr_db": 21.0, "passed": True}),
            record({"toolchain": "host"}, None),
        ]
    )
    assert comparison.options == {
        "quantization.goal": ["none", "snr>=20", None],
        "quantization.method": ["minmax", None, None],
    }
    assert comparison.measures == {"passed": [None, True, None], "snr_db": [9.5, 21.0, None]}


def test_a_notebook_shows_it_as_text_not_as_markup() -> None:
    jobs = [{**record({"a": "<b>"}, None), "name": "<i>"}, record({}, None)]
    head = "<tr><th></th><th>&lt;i&gt;</th><th>9fde157e</th></tr>"
    shown = compare_records(jobs)._repr_html_()
    assert shown == f"<table>{head}<tr><th>a</th><td>&lt;b&gt;</td><td></td></tr></table>"


def test_jobs_that_only_the_archive_has_are_compared_too() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/archive/old":
            return httpx.Response(200, json={"job": {**record({}, None), "job_id": "old", "name": ""}, "is_kept": True})
        code = "NOT_ARCHIVED" if request.url.path.startswith("/archive/") else "JOB_NOT_FOUND"
        return httpx.Response(404, json={"error": {"code": code, "message": "There is none."}})

    client = Modelmill("http://mill", transport=httpx.MockTransport(answer))
    assert client.compare("old", client.archived("old")).names == ["old", "old"]
    with pytest.raises(JobNotFound):
        client.compare("other")
