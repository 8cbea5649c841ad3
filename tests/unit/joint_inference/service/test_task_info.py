"""Which reports of a worker are taken, and how a refusal names what is wrong."""

from __future__ import annotations

from typing import Any

import pytest

from app.joint_inference.service.task_info import read_status
from app.kit.errors import BadInput

INFO = {"inferenceNumber": 1000, "hardExampleNumber": 100, "uploadCloudRatio": 0.1}


def report(output: Any = None, **changes: Any) -> dict[str, Any]:
    return {"phase": "inference", "status": "running", "output": output or {"taskInfo": {**INFO, **changes}}}


def test_times_become_those_of_our_clocks_and_the_other_name_of_current_time_is_read() -> None:
    told = read_status(report(startTime="2020-11-03T16:39:22.517+08:00", updateTime="2020-11-03T08:50:22Z")).task_info
    assert told["startTime"] == "2020-11-03T08:39:22.517Z"
    assert told["currentTime"] == told["updateTime"] == "2020-11-03T08:50:22.000Z"


def test_of_both_names_of_the_counts_the_workers_own_is_taken() -> None:
    both = {"taskInfo": INFO, "ownerInfo": {**INFO, "inferenceNumber": 7}}
    assert read_status(report(both)).task_info["inferenceNumber"] == 1000
    assert read_status(report({"ownerInfo": both["ownerInfo"]})).task_info["inferenceNumber"] == 7


@pytest.mark.parametrize(
    ("body", "field", "words"),
    [
        ([], "", "valid dictionary"),
        ({**report(), "status": "dancing"}, "status", "'completed', 'failed' or 'running'"),
        ({**report(), "uid": "x" * 37}, "uid", "at most 36 characters"),
        (report({"models": []}), "output", "taskInfo is missing"),
        (report(inferenceNumber=-1), "output.taskInfo.inferenceNumber", "greater than or equal to 0"),
        (report(hardExampleNumber=2**53), "output.taskInfo.hardExampleNumber", "less than"),
        (report(uploadCloudRatio=1.5), "output.taskInfo.uploadCloudRatio", "less than or equal to 1"),
        (report(uploadCloudRatio=float("nan")), "output.taskInfo.uploadCloudRatio", "finite number"),
        (report(startTime="2020-11-03T08:39:22"), "output.taskInfo.startTime", "a time needs its zone, as Z"),
        (report(startTime="yesterday"), "output.taskInfo.startTime", "isoformat"),
        (report(currentTime="0001-01-01T00:00:00+23:00"), "output.taskInfo.currentTime", "a time is of our era"),
        (report(**{f"n{n}": n for n in range(65)}), "output.taskInfo", "too many further keys"),
        (report(latency=[1]), "output.taskInfo", "latency is neither a number nor a short text"),
        (report(latency=float("inf")), "output.taskInfo", "latency is neither a number nor a short text"),
        (report(label="x" * 501), "output.taskInfo", "label is neither a number nor a short text"),
        (report(label="\ud800"), "output.taskInfo", "label is neither a number nor a short text"),
        (report(**{"k" * 65: 1}), "output.taskInfo", "is neither a number nor a short text"),
    ],
)
def test_a_report_that_cannot_be_is_refused_by_its_field(body: Any, field: str, words: str) -> None:
    with pytest.raises(BadInput) as refused:
        read_status(body)
    assert field in refused.value.message and words in refused.value.message
