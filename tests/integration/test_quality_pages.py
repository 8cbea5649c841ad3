"""The quality section, the graph viewer, the comparison and the system page, on the running service."""

from __future__ import annotations

import csv
import io
import re
import zipfile
from collections.abc import Iterator
from uuid import uuid4

import httpx
import numpy as np
import onnx
import onnxruntime
import pytest
from PIL import Image

from app.conversion.pages import graph
from app.kit.clock import from_text, now, to_text
from app.kit.objects import ObjectMissing, open_store
from app.kit.objects.factory import FilesystemOptions
from tests.harness.api import (
    Api,
    classifying_model,
    has_ended,
    npz,
    pngs,
    slow_job,
    slow_model,
    small_model,
    vector_model,
)
from tests.harness.deployment import Deployment

FRAGMENT = {"HX-Request": "true"}


@pytest.fixture(scope="module")
def jobs(service: Deployment) -> Iterator[Api]:
    made = Api(service.url)
    yield made
    made.http.close()


@pytest.fixture(scope="module")
def http(jobs: Api) -> httpx.Client:
    return jobs.http


@pytest.fixture(scope="module")
def job_id(jobs: Api) -> str:
    return str(jobs.convert(small_model(), pngs(12), name="first")["job_id"])


@pytest.fixture(scope="module")
def other_id(jobs: Api) -> str:
    options = {"quantization": {"method": "entropy", "per_channel": False}}
    return str(jobs.convert(small_model(), pngs(12), name="second", options=options)["job_id"])


def get(http: httpx.Client, path: str, status: int = 200, **options: object) -> httpx.Response:
    answer = http.get(path, **options)  # type: ignore[arg-type]
    assert answer.status_code == status, answer.text[:500]
    return answer


# --- candidates --------------------------------------------------------------------------------------------
def test_a_candidate_of_a_search_is_made_by_a_click_exactly_and_without_another_search(jobs: Api, job_id: str) -> None:
    page = get(jobs.http, f"/ui/jobs/{job_id}").text
    form = re.search(
        r'action="(/ui/jobs/[^"]+/apply[^"]*)"[^>]*><input type="hidden" name="action" value="(candidate:(\d+))"', page
    )
    assert form is not None, "none can be made"
    tried = {one["id"]: one for one in get(jobs.http, f"/jobs/{job_id}/actions").json()["candidates"]}
    answer = jobs.http.post(
        form[1].replace("&amp;", "&"), data={"action": form[2]}, headers={"Origin": str(jobs.http.base_url).rstrip("/")}
    )
    assert answer.status_code == 303, answer.text
    made = jobs.wait(answer.headers["location"].split("/")[-1].partition("?")[0], has_ended)
    chosen = tried[int(form[3])]
    assert made["options"]["quantization"]["steps"] == chosen["steps"] and made["status"] == "COMPLETED"
    [only] = get(jobs.http, f"/jobs/{made['job_id']}/actions").json()["candidates"]
    assert (only["name"], only["snr_db"], only["is_taken"]) == (chosen["name"], chosen["snr_db"], True)
    assert get(jobs.http, f"/ui/jobs/{made['job_id']}").status_code == 200


def test_where_the_task_was_measured_a_link_shows_the_front_by_its_loss(jobs: Api) -> None:
    options = {"quantization": {"goal": "smallest"}}
    made = jobs.convert(classifying_model(), pngs(12), name="by task", options=options)
    by_snr = get(jobs.http, f"/ui/jobs/{made['job_id']}").text
    assert "SNR against latency" in by_snr and "Task loss against latency" not in by_snr
    link = re.search(r'href="(/ui/jobs/[^"]+[?]measure=task)#pareto-title"', by_snr)
    assert link is not None, "no switch"
    page = get(jobs.http, link[1]).text
    assert "Task loss against latency" in page and "SNR against latency" not in page
    points = re.findall(r'href="#(candidate-[0-9]+)" aria-label="([^"]+)"', page)
    assert points and all(f'id="{row}"' in page for row, _ in points)
    assert any(label.endswith("· chosen") and "Task loss" in label for _, label in points), points
    tried = get(jobs.http, f"/jobs/{made['job_id']}/actions").json()["candidates"]
    known = [one for one in tried if one["drop_percent"] is not None]
    least = min(known, key=lambda one: (one["drop_percent"], one["latency_ms"], one["size_bytes"]))
    assert least["is_on_task_front"]


# --- quality ------------------------------------------------------------------------------------------------
def test_the_quality_of_a_job_is_a_page_and_for_htmx_a_fragment(http: httpx.Client, job_id: str) -> None:
    page = get(http, f"/ui/jobs/{job_id}/quality")
    fragment = get(http, f"/ui/jobs/{job_id}/quality", headers=FRAGMENT)
    assert page.text.startswith("<!doctype html>")
    assert fragment.text.lstrip().startswith(f'<section id="job-quality-{job_id}"')
    assert "HX-Request" in page.headers["vary"]
    for text in ("bit-true", "Passed", "calibration images", "<svg", "20 dB"):
        assert text in fragment.text


def test_layers_can_be_ordered_and_filtered_by_plain_links(http: httpx.Client, job_id: str) -> None:
    def numbers(**params: str) -> list[int]:
        text = get(http, f"/ui/jobs/{job_id}/quality", params=params).text
        return [int(n) for n in re.findall(r'<tr>\s*<td class="num">(\d+)</td>', text)]

    in_order = numbers(order="graph")
    assert in_order == sorted(in_order)
    assert sorted(numbers()) == in_order
    assert len(numbers(precision="int8")) + len(numbers(precision="float")) == len(in_order)
    get(http, f"/ui/jobs/{job_id}/quality?order=upside-down", 422)


def test_the_csv_and_the_json_and_the_report_hold_the_same_numbers(http: httpx.Client, job_id: str) -> None:
    rows = get(http, f"/ui/jobs/{job_id}/quality.json").json()["rows"]
    lines = list(csv.DictReader(io.StringIO(get(http, f"/ui/jobs/{job_id}/quality.csv").text)))
    assert [(line["section"], line["name"]) for line in lines] == [(row["section"], row["name"]) for row in rows]
    for line, row in zip(lines, rows, strict=True):
        numbers = {name: value for name, value in row.items() if isinstance(value, int | float)}
        assert {name: float(line[name]) for name in numbers} == numbers
    report = get(http, f"/jobs/{job_id}/artifacts/bie.json").json()["quality"]
    layers = [row for row in rows if row["section"] == "layer"]
    assert [row["snr_db_mean"] for row in layers] == [layer["snr_db"]["mean"] for layer in report["layers"]]


def test_the_table_on_the_page_holds_the_numbers_of_the_json(http: httpx.Client, job_id: str) -> None:
    text = re.sub(r"<[^>]+>", "", get(http, f"/ui/jobs/{job_id}/quality").text)
    rows = get(http, f"/ui/jobs/{job_id}/quality.json").json()["rows"]
    for row in rows:
        if row["section"] == "layer" and row["snr_db_mean"] < 120:
            assert f"{row['snr_db_mean']:.1f}" in text or f"{row['snr_db_mean'] - 0.05:.1f}" in text


def test_a_worst_picture_is_small_and_is_made_once(http: httpx.Client, service: Deployment, job_id: str) -> None:
    first = get(http, f"/ui/jobs/{job_id}/samples/0")
    assert first.headers["content-type"] == "image/webp"
    assert max(Image.open(io.BytesIO(first.content)).size) <= 128
    store = open_store(FilesystemOptions(service.settings().objects, public_url="http://x", secret="s"))
    made = f"jobs/{job_id}/output/thumbs/made.json"
    before = store.info(made).modified_at
    assert get(http, f"/ui/jobs/{job_id}/samples/1").content != first.content
    assert store.info(made).modified_at == before
    with pytest.raises(ObjectMissing):
        store.info(f"jobs/{job_id}/output/thumbs/12.webp")


def test_a_sample_that_is_no_picture_gets_a_stand_in(http: httpx.Client, jobs: Api) -> None:
    samples = [(f"{n}.npz", npz(x=np.full((1, 6), n, np.float32))) for n in range(1, 4)]
    job = jobs.convert(vector_model(), samples)
    assert job["status"] == "COMPLETED", job["error"]
    answer = get(http, f"/ui/jobs/{job['job_id']}/samples/0")
    assert answer.headers["content-type"].startswith("image/svg+xml")


def test_a_job_without_reports_says_so(http: httpx.Client, jobs: Api) -> None:
    running = jobs.start(*slow_job())
    try:
        assert "Nothing is measured yet" in get(http, f"/ui/jobs/{running}/quality", headers=FRAGMENT).text
        assert get(http, f"/ui/jobs/{running}/quality.json").json()["rows"] == []
        text = get(http, f"/ui/jobs/compare?a={running}&b={running}").text
        assert "has not ended yet" in text
    finally:
        jobs.http.post(f"/jobs/{running}/cancel")


# --- graph viewer -------------------------------------------------------------------------------------------
def test_every_graph_of_a_job_opens_in_the_viewer(http: httpx.Client, job_id: str) -> None:
    for name in ("model.onnx", "out.onnx", "out.bie", "out.nef"):
        page = get(http, f"/ui/jobs/{job_id}/graph/{name}")
        assert "frame-src 'self'" in page.headers["content-security-policy"]
        match = re.search(r'<iframe[^>]* src="([^"]+)"', page.text)
        assert match is not None
        viewer = httpx.URL(match[1].replace("&amp;", "&"))
        assert get(http, str(viewer)).headers["content-type"].startswith("text/html")
        model = get(http, viewer.params["url"]).content
        if name == "out.nef":
            assert viewer.params["identifier"].endswith(".ort")
            onnxruntime.InferenceSession(model)
        else:
            assert viewer.params["identifier"].endswith(".onnx")
            assert onnx.load_from_string(model).graph.node


def test_the_model_inside_a_nef_comes_out_unchanged(http: httpx.Client, job_id: str) -> None:
    nef = get(http, f"/jobs/{job_id}/artifacts/out.nef").content
    with zipfile.ZipFile(io.BytesIO(nef)) as archive:
        assert get(http, f"/ui/jobs/{job_id}/graph/out.nef/model").content == archive.read("model.ort")


def test_a_graph_that_there_is_not_is_named_with_those_there_are(http: httpx.Client, job_id: str) -> None:
    assert "out.onnx" in get(http, f"/ui/jobs/{job_id}/graph/bie.json", 404).text


def test_the_viewer_asks_no_other_host_and_never_grows_too_old(http: httpx.Client) -> None:
    page = get(http, f"{graph.PATH}/")
    policy = dict(part.strip().split(" ", 1) for part in page.headers["content-security-policy"].split(";"))
    assert policy["connect-src"] == policy["script-src"] == policy["frame-ancestors"] == "'self'"
    assert policy["default-src"] == "'none'"
    assert "consent=" in page.headers["set-cookie"]
    assert re.findall(r'<meta name="version" content="([^"]*)">', page.text) == ["0.0.0"]
    assert '<meta name="date"' not in page.text
    loaded = re.findall(r"""<(?:link|script|img)[^>]*(?:src|href)=["']([^"']+)""", page.text)
    assert loaded
    assert not [url for url in loaded if url.startswith(("http", "//"))]


def test_the_viewers_own_switches_are_where_they_were(http: httpx.Client) -> None:
    """What keeps Netron silent is its own code; a new version of it must be looked at before it is taken."""
    browser = get(http, f"{graph.PATH}/browser.js").text
    assert "packaged: this._meta.version && this._meta.version[0] !== '0.0.0'" in browser
    assert "if (this._environment.packaged) {" in browser
    assert "if (this._getCookie('consent') || this._getCookie('_ga')) {" in browser
    assert "this._meta.date[0] ? new Date(" in browser


def test_the_viewer_serves_its_page_and_scripts_and_nothing_else_of_its_package(http: httpx.Client) -> None:
    script = get(http, f"{graph.PATH}/view.js")
    assert script.headers["content-type"].startswith("text/javascript")
    assert script.headers["content-encoding"] == "gzip"
    for path in ("server.py", "__init__.py", "../netron/server.py", "..%2f..%2fpip%2f__init__.py", "nothing.js"):
        get(http, f"{graph.PATH}/{path}", 404)


# --- comparison ---------------------------------------------------------------------------------------------
def test_two_jobs_are_compared_under_a_permalink(http: httpx.Client, job_id: str, other_id: str) -> None:
    text = get(http, f"/ui/jobs/compare?a={job_id}&b={other_id}").text
    for phrase in (
        "quantization.method",
        "quantization.per_channel",
        "The same model.",
        "The same reference pictures.",
    ):
        assert phrase in text
    assert "preprocess.scale" not in text
    assert f"/ui/jobs/compare?a={other_id}&amp;b={job_id}" in text
    assert 'class="chart chart-square"' in text


def test_pictures_show_the_answers_of_both_jobs_beside_those_of_the_float_model(http: httpx.Client, jobs: Api) -> None:
    ids = [
        jobs.convert(classifying_model(), pngs(3), name=method, options={"quantization": {"method": method}})["job_id"]
        for method in ("minmax", "percentile")
    ]
    path = f"/ui/jobs/compare?a={ids[0]}&b={ids[1]}"
    assert "Open the pictures of both jobs once" in get(http, path).text
    for one in ids:
        get(http, f"/ui/jobs/{one}?tab=pictures&draw=true")
    pairs = get(http, path).text.partition('class="picture-pairs"')[2].partition("</ul>")[0].split("<li>")[1:]
    assert len(pairs) == 3
    for pair in pairs:
        assert re.findall(r"answer answer-(\w+)", pair) == ["int8", "float", "int8"]
        assert re.findall(r'aria-label="(\w+): ', pair) == ["A", "float", "B"]


def test_layers_of_different_models_are_not_compared(http: httpx.Client, jobs: Api, job_id: str) -> None:
    """Though both have one of the same name."""
    other_id = jobs.convert(slow_model(16), pngs(3), name="another")["job_id"]
    text = get(http, f"/ui/jobs/compare?a={job_id}&b={other_id}").text
    assert "Different models." in text and "so they are not compared" in text
    assert 'class="chart chart-square"' not in text and "layers that changed most" not in text


def test_a_job_that_is_missing_is_said_and_recent_ones_are_offered(http: httpx.Client, job_id: str) -> None:
    for missing in (str(uuid4()), "nonsense", '"><script>'):
        text = get(http, "/ui/jobs/compare", params={"a": job_id, "b": missing}).text
        assert "Job B is not here" in text
        assert f'<option value="{job_id}" selected>' in text
        assert "<script>" not in text
    assert "Choose the second job" in get(http, f"/ui/jobs/compare?a={job_id}").text
    get(http, "/ui/jobs/compare")


# --- system -------------------------------------------------------------------------------------------------
def test_the_system_page_shows_who_works_and_renews_itself(http: httpx.Client) -> None:
    text = get(http, "/ui/system").text
    assert 'hx-get="/ui/system/state"' in text
    assert "Everything a conversion needs is here." in text
    assert get(http, "/ui/system/state", headers=FRAGMENT).text.lstrip().startswith('<div id="system-state-all"')


def test_the_api_says_the_same_as_the_page(http: httpx.Client) -> None:
    answer = get(http, "/system").json()
    assert answer["is_ready"]
    assert [queue["queue"] for queue in answer["queues"]] == ["onnx", "bie", "nef", "done"]
    assert all(queue["workers"] for queue in answer["queues"])
    assert answer["redis"]["is_up"]
    assert answer["redis"]["latency_ms"] >= 0
    assert answer["store"]["is_up"]
    assert answer["toolchains"] == ["host"]
    assert answer["versions"]["onnxruntime"] == onnxruntime.__version__
    assert "/system" in get(http, "/openapi.json").json()["paths"]


def test_a_busy_worker_names_its_job_and_a_waiting_job_its_age(http: httpx.Client, jobs: Api) -> None:
    started = to_text(now())
    first, second = (jobs.start(*slow_job()) for _ in range(2))
    try:
        jobs.wait(first, lambda job: job["stages"]["bie"]["state"] == "RUNNING")
        jobs.wait(second, lambda job: job["stages"]["bie"]["state"] == "QUEUED")
        bie = get(http, "/system").json()["queues"][1]
        assert [(w["is_busy"], w["job_id"]) for w in bie["workers"]] == [(True, first)]
        assert bie["workers"][0]["since"] > started
        assert (bie["waiting"], bie["busy"]) == (1, 1)
        assert 0 <= bie["oldest_s"] <= (now() - from_text(started)).total_seconds()
        assert f"/ui/jobs/{first}" in get(http, "/ui/system").text
    finally:
        for job in (second, first):
            jobs.http.post(f"/jobs/{job}/cancel")
