"""Ray's dashboard of one job through the product, before a real Ray on which another job runs."""

from __future__ import annotations

import http.client
import re
from urllib.parse import urlsplit

from tests.harness.training.deployment import Trainer
from tests.harness.until import until

PROGRAM = """\
import os, sys, time, ray

ray.init()

@ray.remote(num_cpus=0)
class {name}:
    def waits(self):
        time.sleep(600)

print("my token is", os.environ.get("TOKEN_OF_HUB"))
ray.get({name}.remote().waits.remote())
"""
SECRET = "hf_of_the_dashboard"


def test_the_dashboard_of_a_job_shows_it_and_nothing_else(trainer: Trainer) -> None:
    secrets = trainer.deployment.folder / "secrets"
    secrets.mkdir(exist_ok=True)
    (secrets / "dashboard").write_text(SECRET)
    document = "secrets: {TOKEN_OF_HUB: dashboard}\n"
    assert trainer.http.put("/api/v2/task-environments/dashboard", content=document).status_code in (200, 201)
    ours = trainer.run(trainer.add_program("ours", PROGRAM.format(name="Ours")), environment="dashboard")
    theirs = trainer.run(trainer.add_program("theirs", PROGRAM.format(name="Theirs")))
    base = f"/ui/tasks/{ours}/ray/1/"

    def get(path: str, task: str = base) -> str:
        return trainer.http.get(task + path).text

    until(lambda: get("logical/actors"), lambda text: '"className":"Ours"' in text)
    until(lambda: get("logical/actors", f"/ui/tasks/{theirs}/ray/1/"), lambda text: '"className":"Theirs"' in text)
    page = trainer.http.get(base)
    [script] = re.findall(r"static/js/main\.\w+\.js", page.text)
    assert trainer.http.get(base + script).headers["content-type"].startswith("text/javascript")
    policy = page.headers["content-security-policy"]
    assert f"connect-src {trainer.deployment.url}{base};" in policy and "sandbox allow-scripts" in policy

    [job] = trainer.http.get(f"{base}api/jobs/").json()
    assert job["submission_id"] == f"{ours}--a01" and job["runtime_env"]["env_vars"]["TOKEN_OF_HUB"] == "<redacted>"
    log = f"api/v0/logs/file?filename=job-driver-{ours}--a01.log&lines=100"
    assert until(lambda: get(log), lambda text: "my token is ***" in text)

    [other] = trainer.http.get(f"/ui/tasks/{theirs}/ray/1/api/jobs/").json()
    other_actor = next(iter(trainer.http.get(f"/ui/tasks/{theirs}/ray/1/logical/actors").json()["data"]["actors"]))
    own_paths = [
        "api/v0/tasks?detail=1&limit=10000",
        f"api/v0/tasks?filter_keys=job_id&filter_predicates=%3D&filter_values={other['job_id']}",
        f"api/v0/tasks/summarize?filter_keys=job_id&filter_predicates=%3D&filter_values={other['job_id']}",
        f"api/v0/tasks/timeline?job_id={other['job_id']}",
        "api/v0/placement_groups",
        "logical/actors",
        "nodes?view=summary",
        f"api/data/datasets/{job['job_id']}",
    ]
    for path in own_paths:
        answer = trainer.http.get(base + path)
        assert answer.status_code == 200, path
        assert theirs not in answer.text and "Theirs" not in answer.text and SECRET not in answer.text
    refused = [
        f"api/jobs/{theirs}--a01",
        f"api/jobs/{other['job_id']}",
        f"logical/actors/{other_actor}",
        f"api/data/datasets/{other['job_id']}",
        f"api/v0/logs/file?filename=job-driver-{theirs}--a01.log",
        "api/v0/jobs",
        "api/cluster_status/..",
    ]
    assert {path: trainer.http.get(base + path).status_code for path in refused} == dict.fromkeys(refused, 404)
    for path in (
        "../../2/",
        "../../../../api/v2/tasks",
        "%2e%2e/api/jobs/",
        "..%2f..%2fapi/jobs/",
        "static/js/..%2f..%2f",
    ):
        status, text = _raw(trainer, "GET", base + path)
        assert status == 404 and theirs not in text, path
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        for path in ("api/jobs/", f"api/jobs/{ours}--a01/stop", f"api/jobs/{ours}--a01", "api/serve/applications/"):
            assert _raw(trainer, method, base + path)[0] == 405, (method, path)
    upgrade = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13"}
    key = {"Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}
    for path in (f"api/jobs/{ours}--a01/logs/tail", f"api/jobs/{theirs}--a01/logs/tail"):
        assert _raw(trainer, "GET", base + path, **upgrade, **key)[0] in (403, 404)
    assert trainer.http.get(f"/ui/tasks/{ours}/ray/2/").status_code == 404
    assert trainer.task(ours)["state"] == trainer.task(theirs)["state"] == "RUNNING"
    trainer.cancel(ours, theirs)


def _raw(trainer: Trainer, method: str, path: str, **headers: str) -> tuple[int, str]:
    """Without a client that would put the path in order."""
    connection = http.client.HTTPConnection(urlsplit(trainer.deployment.url).netloc, timeout=60)
    try:
        connection.request(method, path, headers={"Sec-Fetch-Site": "same-origin", **headers})
        answer = connection.getresponse()
        return answer.status, answer.read().decode(errors="replace")
    finally:
        connection.close()
