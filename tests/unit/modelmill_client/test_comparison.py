"""Jobs side by side: what differs in their options, and the measures of all."""

from __future__ import annotations

from typing import Any

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
