"""What the runner costs: frames a second of a runner that takes each frame, beside a plain loop that decodes the same
clip and calls the same stages in one process."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import av
import numpy as np

from app.inference.prediction import Picture
from app.video.model.plan import VideoConf
from ops.benchmarks.video_case import ALIGNMENT, DETECTION, FPS, Case, fitted, opened
from ops.benchmarks.video_fixed import EDGE
from ops.benchmarks.video_nodes import Job, NotMeasured, VideoNodes
from tests.harness.link import Line

SIZE = "480p"
WARM_S = 1.5


def runner_and_loop(case: Case, folder: Path, seconds: float) -> list[tuple[str, float]]:
    """[(what, runner / loop)]: on this machine, and with all of the runner's processes on one core, which the loop has
    for itself."""
    loop = plain_loop(case, seconds)
    whole, single = (_runner(case, folder / name, seconds, pins=name == "one") for name in ("all", "one"))
    print(f"\nrunner {whole:.1f} frames/s, on one core {single:.1f}, plain loop {loop:.1f}")
    return [
        ("runner's throughput / a plain loop over the same stages", whole / loop),
        ("the same with the runner and its host on one core", single / loop),
    ]


def _runner(case: Case, folder: Path, seconds: float, *, pins: bool) -> float:
    with VideoNodes(case, folder, [], line=Line(0.0, 0.0), hi_s=10.0, pins=pins) as deployment:
        plan = deployment.plan({DETECTION: EDGE, ALIGNMENT: EDGE}, VideoConf(SIZE, FPS))
        with deployment.job(None, plan, realtime=False) as job:
            time.sleep(WARM_S + seconds)
            return rate(job, WARM_S)


def rate(job: Job, warm_s: float) -> float:
    """Frames a second between two reports, the first of them after the warm-up."""
    reports: Sequence[tuple[float, int]] = list(job.reports)
    kept = [one for one in reports if one[0] >= reports[0][0] + warm_s] if reports else []
    if len(kept) < 2:
        raise NotMeasured(f"{job.uid} reported too seldom to be measured")
    return sum(count for _, count in kept[1:]) / (kept[-1][0] - kept[0][0])


def plain_loop(case: Case, seconds: float) -> float:
    detection, alignment = (opened(case, stage, 0) for stage in case.stages)
    pictures = _forever(case.clip)
    for _ in range(5):
        _process(detection, alignment, next(pictures))
    began, count = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        _process(detection, alignment, next(pictures))
        count += 1
    return count / (time.perf_counter() - began)


def _process(detection: object, alignment: object, picture: Picture) -> None:
    image = fitted(picture, SIZE)
    answer = detection.run({"image": image})  # type: ignore[attr-defined]
    alignment.run({"image": image, "bbox": answer["bbox"], "prob": answer["prob"]})  # type: ignore[attr-defined]


def _forever(clip: Path) -> Iterator[Picture]:
    while True:
        with av.open(str(clip)) as container:
            for frame in container.decode(video=0):
                yield np.asarray(frame.to_ndarray(format="rgb24"), dtype=np.uint8)
