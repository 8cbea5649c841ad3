"""Joint inference through a slow line: the real edge code here, the real big model's server as a process, and between
them 40 ms there and back at 5 Mbit/s. All ways in one run, so that they can be compared.

`ops/bench joint` measures all sets; `ops/bench joint --set digits` one. Needs the pictures of shared/data.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

import httpx

from app.edge.joint.joint import JointInference
from app.edge.joint.outcome import SampleOutcome
from app.edge.joint.work import Work
from app.edge.work_file import VARIABLE
from app.inference.prediction import Picture
from app.inference.predictor import Predictor
from app.inference.predictor_factory import open_predictor
from app.joint_inference.hard_examples import make
from app.joint_inference.model.content import BigModel, OrderContent
from app.joint_inference.model.resource import API_VERSION, KIND, Role
from app.joint_inference.model.tally import Source
from app.joint_inference.worker_options import EdgeOptions
from tests.harness.deployment import percentile
from tests.harness.joint.data_sets import CASES, Case, Side
from tests.harness.link import Line, Link
from tests.harness.paths import SHARED_DATA
from tests.harness.ports import free_port

LINE = Line(rtt_s=0.04, bits_per_s=5e6, seed=7)
SECRET, SERVICE = "benchmark", "bench"
START_S = 30.0
PATIENT = 60.0
"""Seconds that a sample may take: what is measured is the line, not who gives up."""
ROUNDS = 5
"""Of the easy pictures, the ways in turn."""
Row = tuple[str, str, str]


@dataclass(frozen=True)
class Ran:
    """One way over all pictures, one after the other. ms: of each, to its final answer."""

    outcomes: Sequence[SampleOutcome]
    ms: Sequence[float]
    took_s: float
    bytes_up: int

    @property
    def upload(self) -> float:
        return sum(outcome.source is Source.CLOUD for outcome in self.outcomes) / len(self.outcomes)


def main(options: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="ops/bench joint", description=__doc__)
    parser.add_argument("--set", choices=sorted(CASES), action="append")
    parser.add_argument("--pictures", type=int, help="only so many of each set")
    parsed = parser.parse_args(options)
    if not SHARED_DATA.is_dir():
        print(f"There are no pictures at {SHARED_DATA}: nothing to measure.", file=sys.stderr)
        return
    for name in parsed.set or CASES:
        whole = CASES[name]()
        case = replace(whole, pictures=whole.pictures[: parsed.pictures], truth=whole.truth[: parsed.pictures])
        print(f"\n{name}: {len(case.pictures)} pictures, {LINE.rtt_s * 1000:.0f} ms, {LINE.bits_per_s / 1e6:g} Mbit/s")
        _measure(case)


def _measure(case: Case) -> None:
    with big_model(case.big) as address, Link(address, LINE) as link, _opened(case.small) as small:
        ways = {
            "edge only": ("EdgeOnly", {}),
            "cloud only": ("CloudOnly", {}),
            "joint": (case.algorithm, case.parameters),
        }
        ran = {way: _run(case, small, link, *chosen) for way, chosen in ways.items()}
        share = {"random_ratio": f"{ran['joint'].upload:.4f}", "seed": "7"}
        ran["random, as many"] = _run(case, small, link, "Random", share)
        rows = [*_aims(case, ran), *_easy(case, small, link, ran["joint"]), *_stalled(case, small, link, ran["joint"])]
    print(f"\n{'':18}{'right':>9}{'uploaded':>10}{'p50':>11}{'p95':>11}{'per s':>9}{'bytes up':>12}")
    for way, one in ran.items():
        print(
            f"{way:18}{_quality(case, one):>9.1%}{one.upload:>10.1%}{percentile(list(one.ms), 0.5):>8.1f} ms"
            f"{percentile(list(one.ms), 0.95):>8.1f} ms{len(one.ms) / one.took_s:>9.1f}{one.bytes_up:>12,}"
        )
    print(f"\n{'':72} {'measured':>20} {'aim':>12}")
    for what, measured, aim in rows:
        print(f"{what:72} {measured:>20} {aim:>12}")


def _run(case: Case, small: Predictor, link: Link, algorithm: str, parameters: Mapping[str, str]) -> Ran:
    """Each picture waits for its final answer before the next one comes."""
    before, began, outcomes, times = link.bytes_up, time.perf_counter(), [], []
    with _joint(small, link, algorithm, parameters) as joint:
        for number, picture in enumerate(case.pictures):
            at = time.perf_counter()
            outcomes.append(joint.infer(picture, id=str(number)))
            times.append((time.perf_counter() - at) * 1000)
    return Ran(outcomes, times, time.perf_counter() - began, link.bytes_up - before)


def _aims(case: Case, ran: Mapping[str, Ran]) -> list[Row]:
    edge, cloud, joint, by_lot = (_quality(case, ran[way]) for way in ran)
    kept = (joint - edge) / (cloud - edge) if cloud > edge else 1.0
    return [
        ("right, jointly", f"{joint:.1%}", f">= {case.aim(edge, cloud):.1%}"),
        ("of what the cloud is better than the edge, jointly kept", f"{kept:.0%}", ">= 80%"),
        ("uploaded", f"{ran['joint'].upload:.1%}", f"<= {case.aim_upload:.0%}"),
        ("better than as many by lot", f"{(joint - by_lot) * 100:.1f} points", ">= 2 points"),
        ("mean time jointly / edge only + uploaded share × cloud only", f"{_mean_time(ran):.2f}×", "<= 1.10×"),
    ]


def _mean_time(ran: Mapping[str, Ran]) -> float:
    edge, cloud, joint = (fmean(ran[way].ms) for way in ("edge only", "cloud only", "joint"))
    return joint / (edge + ran["joint"].upload * cloud)


def _easy(case: Case, small: Predictor, link: Link, joint: Ran) -> list[Row]:
    """The easy pictures of the joint run again: in turn by the small model as it is, edge only, and jointly."""
    easy = [
        picture for picture, outcome in zip(case.pictures, joint.outcomes, strict=True) if not outcome.verdict.is_hard
    ]
    times: tuple[list[float], list[float], list[float]] = ([], [], [])
    with _joint(small, link, "EdgeOnly", {}) as alone, _joint(small, link, case.algorithm, case.parameters) as running:
        ways: Sequence[Callable[[Picture], object]] = (small.predict, alone.infer, running.infer)
        for _ in range(ROUNDS):
            for picture in easy:
                for way, took in zip(ways, times, strict=True):
                    at = time.perf_counter()
                    way(picture)
                    took.append((time.perf_counter() - at) * 1000)
    bare_ms, edge_ms, joint_ms = (percentile(took, 0.5) for took in times)
    return [
        ("easy pictures: p50 jointly / edge only", f"{joint_ms / edge_ms:.2f}×", "<= 1.25×"),
        (
            f"the same / the bare small model ({bare_ms:.2f} ms)",
            f"{joint_ms / bare_ms:.2f}×, +{(joint_ms - bare_ms) * 1000:.0f} µs",
            "",
        ),
    ]


def _stalled(case: Case, small: Predictor, link: Link, joint: Ran) -> list[Row]:
    """A stream does not wait: with a cloud that answers nothing it goes on as fast as with one that does."""
    rates = {}
    for is_stalled in (False, True):
        link.stall(is_stalled=is_stalled)
        with _joint(small, link, case.algorithm, case.parameters, deadline_s=1.0) as running:
            pace, easy_s, easy = 1 / 30, 0.0, 0
            for picture, known in zip(case.pictures, joint.outcomes, strict=True):
                at = time.perf_counter()
                running.submit(picture)
                took = time.perf_counter() - at
                if not known.verdict.is_hard:
                    easy_s, easy = easy_s + took, easy + 1
                time.sleep(max(0.0, pace - took) if len(case.pictures) < 500 else 0.0)
            rates[is_stalled] = easy / easy_s
    link.stall(is_stalled=False)
    share = rates[True] / rates[False]
    return [("easy pictures per second while the cloud is stalled / while it answers", f"{share:.2f}×", "about 1×")]


def _quality(case: Case, ran: Ran) -> float:
    return case.quality([outcome.final for outcome in ran.outcomes])


@contextmanager
def _joint(
    small: Predictor, link: Link, algorithm: str, parameters: Mapping[str, str], *, deadline_s: float = PATIENT
) -> Iterator[JointInference]:
    options = replace(EdgeOptions(), deadline_s=deadline_s)
    big = BigModel(f"http://127.0.0.1:{link.port}", SECRET)
    with JointInference(small, make(algorithm, parameters), options, big_model=big, service=SERVICE) as joint:
        yield joint


@contextmanager
def _opened(side: Side) -> Iterator[Predictor]:
    predictor = open_predictor(side.card, side.model, None, side.options)
    try:
        yield predictor
    finally:
        predictor.close()


@contextmanager
def big_model(side: Side) -> Iterator[tuple[str, int]]:
    """The server of the cloud worker, as an agent starts it. Its host and port."""
    with tempfile.TemporaryDirectory() as name:
        folder, port = Path(name), free_port()
        content = OrderContent(Role.CLOUD, _resource(side), side.card, secret=SECRET)
        work = Work(content, side.model, None, "127.0.0.1", port, folder, "http://127.0.0.1:9", "bench")
        work.write(folder / "work.json")
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "app.edge.joint.cloud"],
                env={**os.environ, VARIABLE: str(folder / "work.json")},
                stdout=log,
                stderr=log,
            )
        try:
            _wait(process, f"http://127.0.0.1:{port}/{SERVICE}", folder / "log")
            yield "127.0.0.1", port
        finally:
            process.terminate()
            process.wait()


def _wait(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            if httpx.get(url, trust_env=False).status_code == httpx.codes.OK:
                return
        except httpx.TransportError:
            time.sleep(0.05)
    raise SystemExit(f"the big model's server did not start:\n{log.read_text()}")


def _resource(big: Side) -> dict[str, object]:
    bundled = {"scriptDir": "", "scriptBootFile": "", "frameworkType": "onnx", "frameworkVersion": ""}
    worker = {"name": "bench", "model": {"name": big.model.stem}, "nodeName": "bench"}
    parameters = [{"key": key, "value": value} for key, value in big.parameters.items()]
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": SERVICE, "namespace": "default", "uid": "bench"},
        "spec": {
            "edgeWorker": {**worker, "hardExampleAlgorithm": {"name": "IBT"}, "workerSpec": bundled},
            "cloudWorker": {**worker, "workerSpec": {**bundled, "parameters": parameters}},
        },
    }


if __name__ == "__main__":
    main(sys.argv[1:])
