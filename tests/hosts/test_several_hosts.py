"""Hosts that share nothing but the network: no disk, no user, no loopback. All exchange goes through the store."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.kit.backoff import GrowingPause
from tests.fuzz.corpus import digits
from tests.harness.api import Api, has_ended, pngs, slow_model
from tests.harness.hosts.network import Host
from tests.harness.until import until
from tests.hosts.conftest import QUEUES, Site

pytestmark = [pytest.mark.s3, pytest.mark.slow, pytest.mark.exhaustive]  # by processes of one host: tests/chaos
SIDE, PICTURES = 64, 60
"""Of a job that is to be held: its BIE stage takes several seconds of CPU, and is looked for each 20 ms."""
AT_ONCE = GrowingPause(first_s=0.02, longest_s=0.02)


@pytest.fixture
def api(site: Site) -> Iterator[Api]:
    with Api(site.url) as client:
        client.http.headers["Authorization"] = f"Bearer {site.token}"
        yield client


def test_who_asks_over_the_network_without_a_token_is_not_let_in(site: Site) -> None:
    with Api(site.url) as stranger:
        assert stranger.http.get("/jobs").status_code == 401


def hold_bie(site: Site, api: Api) -> tuple[str, Host, list[int]]:
    """A job whose BIE stage stands still as soon as it has begun: neither over soon nor a burden.

    Returns:
        Its id, the host that runs it, and the processes to go on with.
    """
    job_id = api.start(slow_model(SIDE), pngs(PICTURES, SIDE))
    hosts = [site.network.hosts[name] for name, queue in QUEUES.items() if queue == "bie"]
    host = until(lambda: next((host for host in hosts if toolchain(host, job_id)), None), pauses=AT_ONCE)
    held: list[int] = []
    while (pids := toolchain(host, job_id)) != held:  # one may have begun another before it stood still
        held = pids
        tell(held, signal.SIGSTOP)
    job = api.job(job_id)
    assert job["stage"] == "BIE" and not has_ended(job), job["error"]
    assert site.host_of(job["stages"]["bie"]["worker"]) is host
    return job_id, host, held


def toolchain(host: Host, job_id: str) -> list[int]:
    """The processes of the job's stage."""
    work, pids = host.folder / "work" / job_id, []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            if (process / "cwd").readlink().is_relative_to(work):
                pids.append(int(process.name))
    return sorted(pids)


def tell(pids: list[int], signal_: signal.Signals) -> None:
    for pid in pids:
        os.kill(pid, signal_)


def workers_of(job: dict[str, Any]) -> dict[str, str]:
    return {stage: seen["worker"].partition("/")[0] for stage, seen in job["stages"].items()}


def sweep(site: Site) -> None:
    """What periodiq's pulse does once a minute."""
    if not site.container.broker.holds("periodic", "sweep"):
        site.container.broker.send("periodic", "sweep", message_id="sweep")


def test_a_conversion_passes_through_hosts_that_share_nothing(site: Site, api: Api) -> None:
    model, images = digits()
    job = api.convert(model, [("reference.zip", images)])
    assert job["status"] == "COMPLETED", job["error"]
    workers = workers_of(job)
    assert (workers["onnx"], workers["nef"]) == ("onnx-a", "nef-a") and workers["bie"] in ("bie-a", "bie-b")
    nef = api.http.get(f"/jobs/{job['job_id']}/artifacts/out.nef")
    assert len(nef.content) == job["artifacts"]["out.nef"]["size_bytes"]


def test_every_host_runs_as_a_user_of_its_own_that_is_not_root(site: Site) -> None:
    seen = {host.name: {_uid(process.pid) for process in host.processes} for host in site.network.hosts.values()}
    assert seen == {host.name: {host.uid} for host in site.network.hosts.values()}
    assert len({host.uid for host in site.network.hosts.values()}) == len(seen)


def test_what_a_host_keeps_no_other_user_can_read(site: Site, api: Api) -> None:
    job_id, busy, _ = hold_bie(site, api)
    kept = [name for _, _, names in os.walk(busy.folder / "work" / job_id) for name in names]
    assert kept, "the stage has files in its work folder"
    for host in site.network.hosts.values():
        assert not _seen_by(site.network.hosts["web" if host.name != "web" else "onnx-a"], host.folder), host.name
    api.http.post(f"/jobs/{job_id}/cancel")


def test_a_host_that_is_cut_off_loses_its_job_and_another_does_the_next(site: Site, api: Api) -> None:
    job_id, lost, _ = hold_bie(site, api)
    lost.unplug()
    try:
        ended = until(lambda: sweep(site) or api.job(job_id), has_ended)
        assert (ended["status"], ended["error"]["reason"]) == ("FAILED", "worker lost")
        assert ended["error"]["detail"]["worker"] == ended["stages"]["bie"]["worker"]
        model, images = digits()
        following = api.convert(model, [("reference.zip", images)])
        assert following["status"] == "COMPLETED", following["error"]
        assert workers_of(following)["bie"] != lost.name
    finally:
        lost.plug_in()
    until(lambda: [name for name in site.container.store.workers() if name.startswith(f"{lost.name}/")])
    until(lambda: not (lost.folder / "work" / job_id).exists())
    assert api.job(job_id) == ended, "what the host says when it is back changes nothing"


def test_a_host_that_is_back_in_time_goes_on_with_its_job(site: Site, api: Api) -> None:
    job_id, host, held = hold_bie(site, api)
    before = site.container.store.require(job_id).updated_at
    host.unplug()
    worker = api.job(job_id)["stages"]["bie"]["worker"]
    until(lambda: worker not in site.container.store.workers())
    sweep(site)
    host.plug_in()
    until(lambda: worker in site.container.store.workers())
    tell(held, signal.SIGCONT)
    ended = until(lambda: sweep(site) or api.job(job_id), has_ended)
    assert ended["status"] == "COMPLETED", ended["error"]
    assert ended["stages"]["bie"]["worker"] == worker
    assert ended["updated_at"] > before


def _uid(pid: int) -> int:
    return Path(f"/proc/{pid}").stat().st_uid


def _seen_by(reader: Host, folder: Path) -> list[str]:
    """Files below the folder that another host's user could read, were the disk shared."""
    readable = subprocess.run(
        ["/usr/bin/find", str(folder), "-mindepth", "1", "-readable"],
        user=reader.uid,
        group=reader.uid,
        extra_groups=[],
        capture_output=True,
        text=True,
        check=False,
    )
    return readable.stdout.splitlines()
