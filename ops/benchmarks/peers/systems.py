"""Which systems there are: what each needs installed, how its processes are started, how much is asked of it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import httpx

from tests.harness.deployment import Deployment, Process
from tests.harness.ports import free_port

STAGES = ("onnx", "bie", "nef")
APPS = Path(__file__).parent / "apps"
OWN = "own"
"""The product's own environment."""
REQUIREMENTS = {
    OWN: (),
    "nncf": ("nncf==3.4.0", "onnx==1.23.2", "onnxruntime==1.31.1"),
    "quark": ("amd-quark==0.13", "onnx==1.22.0", "onnxruntime==1.26.0", "torch==2.13.0"),
    "aimet": ("aimet-onnx==2.42.0", "onnx==1.23.2", "onnxruntime==1.32.0", "torch==2.13.0"),
    # It imports the last two and does not say so; of 2024, it fails with later versions of the others.
    "neural-compressor": (
        "onnx-neural-compressor==1.0",
        "onnx==1.16.2",
        "onnxruntime==1.18.1",
        "scipy<1.14",
        "prettytable",
    ),
    "celery": ("celery[redis]==5.7.0", "redis==8.1.0", "hiredis==3.5.0"),
    "rq": ("rq==2.12.0", "redis==8.1.0", "hiredis==3.5.0"),
    "saq": ("saq[redis]==0.26.4", "hiredis==3.5.0", "typing-extensions"),  # it imports the last and does not say so
    "prefect": (
        "prefect==3.8.8",
        "fastapi==0.139.0",
        "redis==8.1.0",
        "hiredis==3.5.0",
    ),  # it fails with a newer fastapi
}
Start = Callable[[Deployment, Path], None]
"""start(deployment, bin folder of the environment)"""


@dataclass(frozen=True)
class System:
    """app: module in apps/ by which the driver submits and waits. one_by_one: jobs in all rounds together; at_once:
    jobs queued together, in each round. is_default: measured when nothing is asked for."""

    name: str
    environment: str
    app: str
    start: Start
    one_by_one: int = 100
    at_once: int = 500
    is_default: bool = True


def _modelmill(deployment: Deployment, _: Path) -> None:
    deployment.workers("ops.benchmarks.noop_actors", onnx=1, bie=1, nef=1, done=1)


def _raw(deployment: Deployment, _: Path, *options: str) -> None:
    for role in (*STAGES, "done"):
        port = str(deployment.redis_port)
        deployment.start([sys.executable, "-m", "ops.benchmarks.raw_hops", role, port, *options])


def _raw_kept(deployment: Deployment, programs: Path) -> None:
    _raw(deployment, programs, "--keep")


def _celery(deployment: Deployment, programs: Path, *, pool: str, prefetch: int) -> None:
    quiet = ("--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel", "WARNING")
    for stage in STAGES:
        own = ("--hostname", f"{stage}@%h", "--queues", stage)
        how = ("--pool", pool, "--concurrency", "1", "--prefetch-multiplier", str(prefetch))
        deployment.start([str(programs / "celery"), "--app", "celery_app", "worker", *own, *how, *quiet])


def _rq(deployment: Deployment, programs: Path, *, worker: str) -> None:
    for stage in STAGES:
        url = ("--url", deployment.env["BENCH_REDIS_URL"])
        deployment.start([str(programs / "rq"), "worker", stage, *url, "--worker-class", worker, "--quiet"])


def _saq(deployment: Deployment, programs: Path) -> None:
    for stage in STAGES:
        deployment.start([str(programs / "saq"), f"saq_app.{stage}", "--quiet"])


def _prefect(deployment: Deployment, programs: Path) -> None:
    port = free_port()
    deployment.env |= {
        "PREFECT_HOME": str(deployment.folder / "prefect"),
        "PREFECT_API_URL": f"http://127.0.0.1:{port}/api",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_SERVER_UI_ENABLED": "false",
        "PREFECT_LOGGING_LEVEL": "WARNING",
        "PREFECT_LOGGING_TO_API_ENABLED": "false",
        "DO_NOT_TRACK": "1",
    }
    prefect = str(programs / "prefect")
    server = deployment.start([prefect, "server", "start", "--host", "127.0.0.1", "--port", str(port)])
    _until_healthy(f"http://127.0.0.1:{port}/api/health", server)
    for stage in STAGES:
        deployment.start([prefect, "task", "serve", f"{APPS / 'prefect_app.py'}:{stage}", "--limit", "1"])


def _until_healthy(url: str, server: Process, timeout_s: float = 60) -> None:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline and server.poll() is None:
        try:
            if httpx.get(url).status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.1)
    raise RuntimeError(f"{url} did not answer within {timeout_s:g} s, or its server ended")


def _celery_system(pool: str, prefetch: int, name: str, *, is_default: bool = True) -> System:
    return System(name, "celery", "celery_app", partial(_celery, pool=pool, prefetch=prefetch), is_default=is_default)


MODELMILL, RAW = "modelmill", "raw"
SYSTEMS = (
    System(MODELMILL, OWN, "modelmill_app", _modelmill),
    System(RAW, OWN, "raw_app", _raw),
    System(f"{RAW}-kept", OWN, "raw_app", _raw_kept),
    _celery_system("prefork", 64, "celery-prefork"),
    _celery_system("solo", 64, "celery-solo"),
    System("rq", "rq", "rq_app", partial(_rq, worker="rq.Worker")),
    System("rq-simple", "rq", "rq_app", partial(_rq, worker="rq.SimpleWorker")),
    System("saq", "saq", "saq_app", _saq),
    System("prefect", "prefect", "prefect_app", _prefect, one_by_one=15, at_once=20),
    *(
        _celery_system(pool, prefetch, f"celery-{pool}-{prefetch}", is_default=False)
        for pool in ("prefork", "solo")
        for prefetch in (1, 4)
    ),
)
