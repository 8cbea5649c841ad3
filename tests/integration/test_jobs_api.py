"""The conversion API as a client meets it: over HTTP, against the whole product."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import UUID, uuid4

import httpx
import numpy as np
import pytest

from app.inference.runtimes.sessions import HostModel
from app.kit.objects.signed_urls import sign_url
from tests.harness.api import (
    Api,
    events,
    has_ended,
    keys,
    npy,
    npz,
    pngs,
    slow_job,
    small_model,
    two_input_model,
    vector_model,
    zipped,
)
from tests.harness.deployment import Deployment
from tests.harness.until import PATIENCE_S, until

ARTIFACTS = {
    "model.onnx",
    "quant.zip",
    "out.onnx",
    "out.bie",
    "out.nef",
    "onnx.json",
    "bie.json",
    "nef.json",
    "onnx.log",
    "bie.log",
    "nef.log",
    "receipt.json",
}
NOBODY = "11111111-2222-4333-8444-555555555555"


@pytest.fixture(scope="module")
def finished(service: Deployment) -> dict[str, Any]:
    """A completed job that no test changes."""
    with Api(service.url) as api:
        return api.convert(small_model(), pngs(4), name="Finished", tags=["kept"])


@pytest.fixture
def no_onnx_worker(service: Deployment) -> Iterator[None]:
    """What is submitted stays queued."""
    with service.paused(service.processes[0]):
        yield


@pytest.fixture
def running(service: Deployment, api: Api) -> Iterator[str]:
    """A job whose BIE stage has begun and would take minutes."""
    job_id = api.start(*slow_job())
    until(lambda: api.job(job_id), lambda job: job["stages"]["bie"]["state"] == "RUNNING" or has_ended(job))
    yield job_id
    api.http.post(f"/jobs/{job_id}/cancel")


def download(api: Api, job_id: str, name: str, **headers: str) -> httpx.Response:
    return api.http.get(f"/jobs/{job_id}/artifacts/{name}", headers=headers)


def assert_error(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert error["code"] == code
    assert error["message"]
    return dict(error)


# --- a conversion -------------------------------------------------------------------------------------
def numbers(count: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(1).normal(0, 1, (count, *shape)).astype(np.float32)


@pytest.mark.parametrize(
    ("model", "images", "inputs"),
    [
        pytest.param(
            small_model(),
            [("pictures.zip", zipped(pngs(4)))],
            {"x": (1, 3, 16, 16)},
            id="a zip",
            marks=pytest.mark.exhaustive,
        ),
        pytest.param(small_model(), pngs(5), {"x": (1, 3, 16, 16)}, id="many pictures"),
        pytest.param(
            vector_model(),
            [("rows.npy", npy(numbers(8, 6)))],
            {"x": (1, 6)},
            id="one npy",
            marks=pytest.mark.exhaustive,
        ),
        pytest.param(
            vector_model(), [(f"{i}.npy", npy(numbers(1, 6))) for i in range(3)], {"x": (1, 6)}, id="many npy"
        ),
        pytest.param(
            two_input_model(),
            [("both.npz", npz(left=numbers(8, 1, 6), right=numbers(8, 1, 4)))],
            {"left": (1, 6), "right": (1, 4)},
            id="one npz",
        ),
    ],
)
def test_what_is_uploaded_becomes_a_nef_that_runs(
    api: Api, tmp_path: Path, model: bytes, images: list[tuple[str, bytes]], inputs: dict[str, tuple[int, ...]]
) -> None:
    job = api.convert(model, images)
    assert (job["status"], job["progress"], job["error"]) == ("COMPLETED", 100, None)
    assert set(job["artifacts"]) >= ARTIFACTS
    for name, artifact in job["artifacts"].items():
        content = download(api, job["job_id"], name).content
        assert len(content) == artifact["size_bytes"], name
        assert hashlib.sha256(content).hexdigest() == artifact["sha256"], name
    (tmp_path / "out.nef").write_bytes(download(api, job["job_id"], "out.nef").content)
    outputs = HostModel(tmp_path / "out.nef").run({name: numbers(*shape) for name, shape in inputs.items()})
    assert np.isfinite(outputs["y"]).all()


def test_an_upload_tells_the_keys_sizes_and_digests_of_what_was_kept(api: Api, service: Deployment) -> None:
    model, images = small_model(), zipped(pngs(2))
    stored = api.upload(model, [("pictures.zip", images)])
    assert stored["model_key"] == f"uploads/{stored['upload_id']}/model.onnx"
    assert stored["quant_key"] == f"uploads/{stored['upload_id']}/quant.zip"
    assert [(f["field"], f["name"], f["size_bytes"], f["sha256"]) for f in stored["files"]] == [
        ("model", "model.onnx", len(model), hashlib.sha256(model).hexdigest()),
        ("images", "pictures.zip", len(images), hashlib.sha256(images).hexdigest()),
    ]
    assert keys(service, f"uploads/{stored['upload_id']}/") >= {stored["model_key"], stored["quant_key"]}


def test_model_and_images_may_be_uploaded_apart(api: Api) -> None:
    model, images = api.upload(small_model()), api.upload(images=pngs(3))
    assert (model["quant_key"], images["model_key"]) == (None, None)
    answer = api.http.post("/jobs", json={"model_key": model["model_key"], "quant_key": images["quant_key"]})
    assert answer.status_code == 201
    api.wait(answer.json()["job_id"], has_ended)


def test_pictures_of_the_same_name_are_all_kept(api: Api) -> None:
    same = [(f"{folder}/1.png", data) for folder, (_, data) in zip("abc", pngs(3), strict=True)]
    answer = api.submit(small_model(), same)
    assert answer.status_code == 201, answer.text
    assert answer.json()["intake"]["samples"]["samples"] == 3
    api.wait(answer.json()["job_id"], has_ended)


def test_a_new_job_is_answered_as_required_and_says_where_it_is(api: Api, no_onnx_worker: None) -> None:
    answer = api.submit(small_model(), pngs(2))
    job = answer.json()
    assert answer.status_code == 201
    assert answer.headers["location"] == f"/jobs/{job['job_id']}"
    assert UUID(job["job_id"]).version == 4
    assert (job["status"], job["stage"], job["progress"]) == ("ONNX", "ONNX", 0)
    assert job["output"]["bie_key"] is None
    assert job["output"]["nef_key"] is None
    assert job["stages"]["onnx"]["state"] == "QUEUED"
    api.http.post(f"/jobs/{job['job_id']}/cancel")


def test_a_finished_job_has_every_required_field(api: Api, finished: dict[str, Any]) -> None:
    job, job_id = api.job(finished["job_id"]), finished["job_id"]
    assert (job["job_id"], job["status"], job["stage"], job["progress"]) == (job_id, "COMPLETED", "NEF", 100)
    assert job["output"] == {
        "onnx_key": f"jobs/{job_id}/output/result.onnx",
        "bie_key": f"jobs/{job_id}/output/result.bie",
        "nef_key": f"jobs/{job_id}/output/result.nef",
    }
    assert job["error"] is None
    assert job["created_at"] < job["finished_at"] <= job["updated_at"]
    assert (job["name"], job["tags"], job["queue_position"]) == ("Finished", ["kept"], None)
    for step in ("onnx", "bie", "nef"):
        stage = job["stages"][step]
        assert (stage["state"], stage["progress"]) == ("DONE", 100)
        assert stage["queued_at"] <= stage["started_at"] <= stage["finished_at"]
        assert stage["versions"]
        assert stage["worker"]


def test_the_objects_of_a_job_lie_where_the_requirement_puts_them(
    service: Deployment, finished: dict[str, Any]
) -> None:
    prefix = f"jobs/{finished['job_id']}/"
    required = {
        "input/model.onnx",
        "input/quant.zip",
        "output/result.bie",
        "output/result.nef",
        "logs/onnx.log",
        "logs/bie.log",
        "logs/nef.log",
    }
    assert keys(service, prefix) >= {prefix + name for name in required}


def test_a_job_can_be_made_of_another_jobs_inputs(api: Api, finished: dict[str, Any]) -> None:
    prefix = f"jobs/{finished['job_id']}/input"
    answer = api.http.post("/jobs", json={"model_key": f"{prefix}/model.onnx", "quant_key": f"{prefix}/quant.zip"})
    assert answer.status_code == 201, answer.text
    assert api.wait(answer.json()["job_id"], has_ended)["status"] == "COMPLETED"


# --- unknown jobs -------------------------------------------------------------------------------------
# --- the event stream ---------------------------------------------------------------------------------
def test_a_finished_job_streams_its_state_and_the_end(api: Api, finished: dict[str, Any]) -> None:
    with api.http.stream("GET", f"/jobs/{finished['job_id']}/events") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        frames = list(events(answer.iter_lines()))
    assert [event for event, _ in frames] == ["status", "done"]
    assert all(data == api.job(finished["job_id"]) for _, data in frames)


def test_the_first_frame_is_the_state_as_it_is_and_the_last_the_end(api: Api, no_onnx_worker: None) -> None:
    job_id = api.start(small_model(), pngs(2))
    with api.http.stream("GET", f"/jobs/{job_id}/events") as answer:
        frames = events(answer.iter_lines())
        event, data = next(frames)
        assert (event, data["job_id"], data["status"]) == ("status", job_id, "ONNX")
        httpx.post(f"{api.http.base_url}/jobs/{job_id}/cancel")
        rest = list(frames)
    assert [event for event, _ in rest] == ["status", "done"]
    assert rest[-1][1]["error"]["reason"] == "CANCELLED"


def test_two_clients_can_watch_the_same_job_to_its_end(service: Deployment, api: Api) -> None:
    with service.paused(service.processes[0]):
        job_id = api.start(small_model(), pngs(3))
        seen: list[list[tuple[str, dict[str, Any]]]] = [[], []]
        has_begun = [threading.Event(), threading.Event()]

        def watch(index: int) -> None:
            with httpx.stream("GET", f"{service.url}/jobs/{job_id}/events", timeout=PATIENCE_S) as answer:
                for frame in events(answer.iter_lines()):
                    seen[index].append(frame)
                    has_begun[index].set()

        watchers = [threading.Thread(target=watch, args=(index,)) for index in range(2)]
        for watcher in watchers:
            watcher.start()
        assert all(begun.wait(PATIENCE_S) for begun in has_begun)
    for watcher in watchers:
        watcher.join(PATIENCE_S)
    for frames in seen:
        assert (frames[0][0], frames[0][1]["status"]) == ("status", "ONNX")
        assert [event for event, _ in frames[:-1]] == ["status"] * (len(frames) - 1)
        assert (frames[-1][0], frames[-1][1]["status"]) == ("done", "COMPLETED")
        progress = [data["progress"] for _, data in frames]
        assert progress == sorted(progress)
        order = ["ONNX", "BIE", "NEF", "COMPLETED"]
        places = [order.index(data["status"]) for _, data in frames]
        assert places == sorted(places)


def test_a_stream_whose_job_is_forgotten_says_so_and_ends(service: Deployment, api: Api, no_onnx_worker: None) -> None:
    job_id = api.start(small_model(), pngs(2))
    with api.http.stream("GET", f"/jobs/{job_id}/events") as answer:
        frames = events(answer.iter_lines())
        next(frames)
        service.redis.delete(f"job:{job_id}")
        service.redis.publish(f"nudge:job:{job_id}", 0)
        rest = list(frames)
    assert [(event, data["error"]["code"]) for event, data in rest] == [("gone", "JOB_NOT_FOUND")]


def test_the_head_of_an_event_stream_does_not_wait_for_the_job(api: Api, no_onnx_worker: None) -> None:
    job_id = api.start(small_model(), pngs(2))
    answer = api.http.head(f"/jobs/{job_id}/events", timeout=60)
    assert answer.headers["content-type"].startswith("text/event-stream")
    api.http.post(f"/jobs/{job_id}/cancel")


# --- the list -----------------------------------------------------------------------------------------
def listed(api: Api, **query: Any) -> tuple[list[str], str | None]:
    answer = api.http.get("/jobs", params=query)
    assert answer.status_code == 200, answer.text
    return [job["job_id"] for job in answer.json()["jobs"]], answer.json()["next_cursor"]


def test_the_list_is_paged_newest_first_and_new_jobs_do_not_shift_it(api: Api, no_onnx_worker: None) -> None:
    tag = uuid4().hex
    ids = [api.start(small_model(), pngs(2), tags=[tag]) for _ in range(5)]
    first, cursor = listed(api, q=tag, limit=2)
    ids.append(api.start(small_model(), pngs(2), tags=[tag]))
    second, cursor = listed(api, q=tag, limit=2, cursor=cursor)
    third, cursor = listed(api, q=tag, limit=2, cursor=cursor)
    assert first + second + third == ids[4::-1]
    assert cursor is None
    assert listed(api, q=tag)[0] == ids[::-1]
    for job_id in ids:
        api.http.post(f"/jobs/{job_id}/cancel")


def test_the_list_can_be_filtered(api: Api, finished: dict[str, Any], no_onnx_worker: None) -> None:
    name = f"Filter me {uuid4().hex}"
    queued = api.start(small_model(), pngs(2), name=name)
    assert queued in listed(api, status="ONNX")[0]
    assert finished["job_id"] not in listed(api, status="ONNX")[0]
    assert finished["job_id"] in listed(api, status="COMPLETED", limit=200)[0]
    assert listed(api, q=name.upper())[0] == [queued]
    assert listed(api, q=queued[:13])[0] == [queued]
    assert listed(api, q=name, toolchain="host")[0] == [queued]
    assert listed(api, q=name, toolchain="kneron")[0] == []
    assert listed(api, q=name, platform="520")[0] == []
    assert listed(api, q=name, status="COMPLETED")[0] == []
    api.http.post(f"/jobs/{queued}/cancel")


@pytest.mark.parametrize(
    "query",
    [
        "status=DONE",
        "toolchain=tensorrt",
        "platform=999",
        "limit=0",
        "limit=201",
        "limit=ten",
        "cursor=nan",
        "cursor=abc",
        "cursor=1e999",
        "page=2",
        "limit=1&limit=2",
        f"q={'x' * 201}",
    ],
)
def test_a_list_that_cannot_be_meant_is_refused_naming_the_parameter(api: Api, query: str) -> None:
    answer = api.http.get(f"/jobs?{query}")
    error = assert_error(answer, 422, "BAD_INPUT")
    assert query.partition("=")[0] in error["message"]


# --- cancel and delete --------------------------------------------------------------------------------
def test_a_queued_job_can_be_cancelled_once(api: Api, no_onnx_worker: None) -> None:
    first, second = (api.start(small_model(), pngs(2)) for _ in range(2))
    assert isinstance(api.job(second)["queue_position"], int)
    answer = api.http.post(f"/jobs/{second}/cancel")
    assert answer.status_code == 200
    job = answer.json()
    assert (job["status"], job["error"]["reason"], job["error"]["step"]) == ("FAILED", "CANCELLED", "onnx")
    assert job["queue_position"] is None
    error = assert_error(api.http.post(f"/jobs/{second}/cancel"), 409, "JOB_FINISHED")
    assert "CANCELLED" in error["message"]
    assert api.job(first)["status"] == "ONNX"
    api.http.post(f"/jobs/{first}/cancel")


def toolchain_groups(service: Deployment, job_id: str) -> set[int]:
    """Process groups at work in the job's folder."""
    folder, groups = service.settings().work / job_id, set()
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (entry / "cwd").readlink() == folder:
                groups.add(os.getpgid(int(entry.name)))
    return groups


def is_alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.slow
def test_cancelling_a_running_job_ends_its_toolchain_and_not_its_worker(
    service: Deployment, api: Api, running: str
) -> None:
    groups = until(lambda: toolchain_groups(service, running))
    answer = api.http.post(f"/jobs/{running}/cancel")
    assert answer.status_code == 200
    job = answer.json()
    assert (job["status"], job["error"]["reason"], job["error"]["step"]) == ("FAILED", "CANCELLED", "bie")
    until(lambda: not any(is_alive(group) for group in groups))
    assert assert_error(api.http.post(f"/jobs/{running}/cancel"), 409, "JOB_FINISHED")["message"]
    assert api.convert(small_model(), pngs(3))["status"] == "COMPLETED"
    assert api.job(running)["error"]["reason"] == "CANCELLED"
    until(lambda: not (service.settings().work / running).exists())


@pytest.mark.slow
def test_a_job_that_is_deleted_while_its_stage_is_being_stopped_leaves_no_log(
    service: Deployment, api: Api, running: str
) -> None:
    api.http.post(f"/jobs/{running}/cancel")
    assert api.http.delete(f"/jobs/{running}").status_code == 204
    until(lambda: not (service.settings().work / running).exists(), what="the stage is stopped, its log stored")
    until(lambda: not keys(service, f"jobs/{running}/"), what="the log is deleted")


@pytest.mark.slow
@pytest.mark.exhaustive
def test_a_job_that_only_redis_has_forgotten_keeps_the_log_of_its_stage(
    service: Deployment, api: Api, running: str
) -> None:
    service.redis.delete(f"job:{running}")
    until(lambda: not (service.settings().work / running).exists(), what="the stage is stopped, its log stored")
    assert api.convert(small_model(), pngs(3))["status"] == "COMPLETED", "the worker is done with the other"
    assert f"jobs/{running}/logs/bie.log" in keys(service, f"jobs/{running}/logs/")


@pytest.mark.slow
def test_a_log_can_be_followed_while_its_stage_runs(api: Api, running: str) -> None:
    def log(offset: int) -> httpx.Response:
        return api.http.get(f"/jobs/{running}/logs/bie", params={"offset": offset})

    live = until(lambda: log(0), lambda answer: answer.content)
    assert live.headers["x-log-complete"] == "false"
    assert int(live.headers["x-log-next-offset"]) == len(live.content)
    rest = log(5)
    assert rest.content.startswith(live.content[5:])
    api.http.post(f"/jobs/{running}/cancel")
    ended = until(lambda: log(0), lambda answer: answer.headers["x-log-complete"] == "true")
    assert ended.content.startswith(live.content)


def test_an_active_job_cannot_be_deleted_and_a_finished_one_leaves_nothing(service: Deployment, api: Api) -> None:
    with service.paused(service.processes[0]):
        job_id = api.start(small_model(), pngs(2))
        assert assert_error(api.http.delete(f"/jobs/{job_id}"), 409, "JOB_ACTIVE")["hint"]
        assert keys(service, f"jobs/{job_id}/")
    api.wait(job_id, has_ended)
    answer = api.http.delete(f"/jobs/{job_id}")
    assert (answer.status_code, answer.content) == (204, b"")
    assert_error(api.http.get(f"/jobs/{job_id}"), 404, "JOB_NOT_FOUND")
    assert_error(api.http.delete(f"/jobs/{job_id}"), 404, "JOB_NOT_FOUND")
    assert keys(service, f"jobs/{job_id}/") == set()
    assert job_id not in api.job_ids()


# --- logs ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("step", ["onnx", "bie", "nef"])
def test_a_log_is_read_afterwards_from_any_offset(api: Api, finished: dict[str, Any], step: str) -> None:
    def log(offset: int) -> httpx.Response:
        return api.http.get(f"/jobs/{finished['job_id']}/logs/{step}", params={"offset": offset})

    whole = download(api, finished["job_id"], f"{step}.log").content
    size = len(whole)
    assert whole
    for offset in (0, 3, size, size + 1000):
        answer = log(offset)
        assert answer.content == whole[offset:]
        assert answer.headers["x-log-next-offset"] == str(max(size, offset))
        assert answer.headers["x-log-complete"] == "true"
        assert answer.headers["content-type"] == "text/plain; charset=utf-8"


@pytest.mark.parametrize("offset", ["-1", "x", str(1 << 41), ""])
def test_an_offset_that_is_none_is_refused(api: Api, finished: dict[str, Any], offset: str) -> None:
    answer = api.http.get(f"/jobs/{finished['job_id']}/logs/onnx", params={"offset": offset})
    assert "offset" in assert_error(answer, 422, "BAD_INPUT")["message"]


def test_a_log_of_no_step_is_not_found(api: Api, finished: dict[str, Any]) -> None:
    error = assert_error(api.http.get(f"/jobs/{finished['job_id']}/logs/train"), 404, "NOT_FOUND")
    assert "onnx, bie and nef" in error["hint"]


# --- artifacts ----------------------------------------------------------------------------------------
def test_the_artifacts_are_listed_by_name(api: Api, finished: dict[str, Any]) -> None:
    shown = api.http.get(f"/jobs/{finished['job_id']}/artifacts").json()["artifacts"]
    assert [artifact["name"] for artifact in shown] == sorted(finished["artifacts"])
    assert {a["name"]: {k: a[k] for k in ("key", "size_bytes", "sha256")} for a in shown} == finished["artifacts"]


def test_a_download_says_what_it_is(api: Api, finished: dict[str, Any]) -> None:
    answer = download(api, finished["job_id"], "out.nef")
    artifact = finished["artifacts"]["out.nef"]
    assert answer.status_code == 200
    assert answer.headers["content-length"] == str(artifact["size_bytes"])
    assert answer.headers["etag"] == f'"{artifact["sha256"]}"'
    assert answer.headers["accept-ranges"] == "bytes"
    assert answer.headers["content-disposition"] == 'attachment; filename="out.nef"'
    assert answer.headers["content-type"] == "application/octet-stream"
    kinds = {name: download(api, finished["job_id"], name).headers["content-type"] for name in ARTIFACTS}
    assert (kinds["bie.json"], kinds["quant.zip"]) == ("application/json", "application/zip")
    assert kinds["bie.log"] == "text/plain; charset=utf-8"


@pytest.mark.parametrize(
    ("span", "first", "end"), [("0-0", 0, 1), ("10-19", 10, 20), ("100-", 100, None), ("-7", -7, None)]
)
def test_a_part_of_a_file_can_be_downloaded(
    api: Api, finished: dict[str, Any], span: str, first: int, end: int | None
) -> None:
    whole = download(api, finished["job_id"], "out.nef").content
    answer = download(api, finished["job_id"], "out.nef", Range=f"bytes={span}")
    start = first % len(whole)
    assert answer.status_code == 206
    assert answer.content == whole[first:end]
    last = start + len(answer.content) - 1
    assert answer.headers["content-range"] == f"bytes {start}-{last}/{len(whole)}"
    assert answer.headers["content-length"] == str(len(answer.content))


def test_a_part_beyond_the_end_is_refused_with_the_size(api: Api, finished: dict[str, Any]) -> None:
    size = finished["artifacts"]["out.nef"]["size_bytes"]
    answer = download(api, finished["job_id"], "out.nef", Range=f"bytes={size}-")
    error = assert_error(answer, 416, "RANGE_NOT_SATISFIABLE")
    assert error["detail"] == {"size_bytes": size}
    assert answer.headers["content-range"] == f"bytes */{size}"


def test_a_download_is_taken_up_again_only_if_the_file_is_still_the_same(api: Api, finished: dict[str, Any]) -> None:
    etag = download(api, finished["job_id"], "out.nef").headers["etag"]
    same = download(api, finished["job_id"], "out.nef", Range="bytes=5-", **{"If-Range": etag})
    other = download(api, finished["job_id"], "out.nef", Range="bytes=5-", **{"If-Range": '"other"'})
    assert (same.status_code, other.status_code) == (206, 200)


def test_head_tells_the_size_without_the_bytes(api: Api, finished: dict[str, Any]) -> None:
    size = finished["artifacts"]["out.nef"]["size_bytes"]
    for headers in ({}, {"Range": "bytes=0-9"}):
        answer = api.http.head(f"/jobs/{finished['job_id']}/artifacts/out.nef", headers=headers)
        assert (answer.status_code, answer.content) == (200, b"")
        assert answer.headers["content-length"] == str(size)
        assert "content-range" not in answer.headers


@pytest.mark.parametrize("given", ["{}", '"other", {}', "W/{}", "*"])
def test_a_file_that_the_client_has_already_is_not_sent_again(api: Api, finished: dict[str, Any], given: str) -> None:
    etag = download(api, finished["job_id"], "out.nef").headers["etag"]
    answer = download(api, finished["job_id"], "out.nef", **{"If-None-Match": given.format(etag)})
    assert (answer.status_code, answer.content) == (304, b"")
    assert answer.headers["etag"] == etag
    other = download(api, finished["job_id"], "out.nef", **{"If-None-Match": '"other"'})
    assert other.status_code == 200


@pytest.mark.parametrize("rest", ["", "/link"])
@pytest.mark.parametrize("name", ["out.exe", "..%2finput%2fmodel.onnx", "request.json"])
def test_a_file_that_the_job_does_not_have_is_not_found(
    api: Api, finished: dict[str, Any], name: str, rest: str
) -> None:
    answer = api.http.get(f"/jobs/{finished['job_id']}/artifacts/{name}{rest}")
    assert answer.status_code == 404
    assert answer.json()["error"]["code"] in ("ARTIFACT_NOT_READY", "NOT_FOUND")


# --- signed links -------------------------------------------------------------------------------------
def changed(url: str, **query: str) -> str:
    """The same link with some of its parameters replaced."""
    parts = urlsplit(url)
    old = {name: values[0] for name, values in parse_qs(parts.query).items()}
    return str(httpx.URL(url).copy_with(params={**old, **query}))


def test_a_link_downloads_the_file_without_anything_else(api: Api, finished: dict[str, Any]) -> None:
    link = api.http.get(f"/jobs/{finished['job_id']}/artifacts/out.nef/link").json()
    answer = httpx.get(link["url"])
    assert answer.status_code == 200
    assert answer.content == download(api, finished["job_id"], "out.nef").content
    assert answer.headers["content-disposition"] == 'attachment; filename="out.nef"'
    assert link["expires_at"] > finished["finished_at"]
    part = httpx.get(link["url"], headers={"Range": "bytes=-3"})
    assert (part.status_code, part.content) == (206, answer.content[-3:])


def test_a_link_that_was_tampered_with_is_refused(api: Api, finished: dict[str, Any]) -> None:
    url = api.http.get(f"/jobs/{finished['job_id']}/artifacts/out.nef/link").json()["url"]
    later = str(int(time.time()) + 10**6)
    forged = [
        changed(url, expires=later),
        changed(url, name="x.html"),
        changed(url, signature="0" * 64),
        changed(url, signature=""),
        changed(url, expires="never"),
        url.replace("result.nef", "result.bie"),
        url.partition("?")[0],
    ]
    for link in forged:
        assert assert_error(httpx.get(link), 403, "BAD_SIGNATURE")["hint"]
    assert_error(httpx.put(url, content=b"mine now"), 403, "BAD_SIGNATURE")


def link_of_yesterday(service: Deployment, method: str, key: str) -> str:
    expires = int(time.time()) - 86400
    return sign_url(service.url, service.env["MODELMILL_SECRET_KEY"], method, key, expires)


def test_a_link_expires(service: Deployment, finished: dict[str, Any]) -> None:
    url = link_of_yesterday(service, "GET", finished["artifacts"]["out.nef"]["key"])
    assert assert_error(httpx.get(url), 403, "URL_EXPIRED")["hint"]


def test_a_link_to_what_was_deleted_is_not_found(service: Deployment) -> None:
    url = sign_url(service.url, service.env["MODELMILL_SECRET_KEY"], "GET", "jobs/nothing", int(time.time()) + 60)
    assert_error(httpx.get(url), 404, "OBJECT_NOT_FOUND")


def test_inputs_can_be_put_straight_to_the_store(api: Api) -> None:
    answer = api.http.post("/uploads/presign", json={})
    assert answer.status_code == 201
    links = answer.json()
    for what, content in (("model", small_model()), ("images", zipped(pngs(3)))):
        assert links[what]["method"] == "PUT"
        put = httpx.put(links[what]["url"], content=content)
        assert put.status_code == 200, put.text
        assert put.headers["etag"] == f'"{hashlib.sha256(content).hexdigest()}"'
    body = {"model_key": links["model"]["key"], "quant_key": links["images"]["key"]}
    created = api.http.post("/jobs", json=body)
    assert created.status_code == 201, created.text
    assert api.wait(created.json()["job_id"], has_ended)["status"] == "COMPLETED"


def test_a_put_over_another_version_than_the_clients_is_refused(api: Api) -> None:
    url = api.http.post("/uploads/presign", json={}).json()["model"]["url"]
    assert_error(httpx.put(url, content=b"first", headers={"If-Match": "*"}), 412, "PRECONDITION_FAILED")
    first = httpx.put(url, content=b"first").headers["etag"]
    second = httpx.put(url, content=b"second", headers={"If-Match": first})
    assert second.status_code == 200
    assert_error(httpx.put(url, content=b"third", headers={"If-Match": first}), 412, "PRECONDITION_FAILED")
    assert httpx.put(url, content=b"third", headers={"If-Match": second.headers["etag"]}).status_code == 200


def test_only_the_links_that_are_wanted_are_made(api: Api) -> None:
    links = api.http.post("/uploads/presign", json={"images": False}).json()
    assert links["images"] is None
    assert links["model"]["key"] == f"uploads/{links['upload_id']}/model.onnx"


def test_a_put_with_a_wrong_method_key_or_time_is_refused_and_keeps_nothing(service: Deployment, api: Api) -> None:
    links = api.http.post("/uploads/presign", json={}).json()
    url, prefix = links["model"]["url"], f"uploads/{links['upload_id']}/"
    before = keys(service, prefix)
    assert_error(httpx.get(url), 403, "BAD_SIGNATURE")
    assert_error(httpx.put(url.replace("model.onnx", "quant.zip"), content=b"x"), 403, "BAD_SIGNATURE")
    assert_error(httpx.put(url.replace("model.onnx", "upload.json"), content=b"x"), 403, "BAD_SIGNATURE")
    assert_error(httpx.put(f"{service.url}/objects/anything", content=b"x"), 403, "BAD_SIGNATURE")
    old = link_of_yesterday(service, "PUT", prefix + "model.onnx")
    assert_error(httpx.put(old, content=b"x"), 403, "URL_EXPIRED")
    assert keys(service, prefix) == before
    assert "anything" not in keys(service, "")


# --- the rest -----------------------------------------------------------------------------------------
def test_the_service_says_that_it_lives_and_is_ready(api: Api) -> None:
    for path in ("/healthz", "/readyz"):
        assert api.http.get(path).json() == {"status": "ok"}


def test_a_path_or_a_method_that_is_not_there_is_an_error_in_our_form(api: Api) -> None:
    assert_error(api.http.get("/nothing"), 404, "NOT_FOUND")
    assert_error(api.http.put("/jobs"), 405, "METHOD_NOT_ALLOWED")


def test_every_answer_of_the_reports_is_json(api: Api, finished: dict[str, Any]) -> None:
    for step in ("onnx", "bie", "nef"):
        json.loads(download(api, finished["job_id"], f"{step}.json").content)


def test_the_owner_narrows_the_list_and_others_jobs_are_not_seen(api: Api) -> None:
    job_id = api.convert(small_model(), pngs(3))["job_id"]

    def listed(owner: str) -> list[str]:
        return [job["job_id"] for job in api.http.get("/jobs", params={"owner": owner}).json()["jobs"]]

    assert job_id in listed("local")
    assert listed("somebody else") == []
    assert job_id in api.http.get("/ui/jobs?owner=local").text
    assert job_id not in api.http.get("/ui/jobs?owner=somebody").text
