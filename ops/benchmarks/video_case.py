"""What video jobs are measured on: a clip with walking faces, the stages that look for them, and how good each size,
model and rate is against the best. The files lie in shared/data beside the repository, which is never part of it."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

import av
import numpy as np
from PIL import Image

from app.edge.video.runner.quality import f1
from app.edge.video.stages.base import ModelFile
from app.edge.video.stages.registry import kinds, stage_class
from app.inference.model_card import Format, ModelCard
from app.inference.picture_codec import encode
from app.inference.prediction import Picture
from app.video.model.dag import Dag, read_dag
from app.video.model.kinds import Stage
from app.video.model.plan import RESOLUTIONS
from app.video.scheduling.contract import DagInfo, GeneratorInfo, Measured
from tests.harness.paths import SHARED_DATA

CLIP = "faces-walking-270p.mp4"
FPS, SIZE = 24, (1280, 720)
DETECTION, ALIGNMENT = "face_detection", "face_alignment"
SIZES = ("240p", "360p", "480p", "720p")
LOOKED_AT = 40
"""Frames of the clip that are compared and timed."""
VARIANTS: Mapping[str, Sequence[Sequence[str]]] = {
    DETECTION: (("face_rfb_640",), ("face_yunet_n_dynamic",), ("face_yunet_n_320_320",)),
    ALIGNMENT: (("headpose_fsanet_1x1", "headpose_fsanet_var"), ("headpose_fsanet_var",)),
}
GENERATOR = "SingleFrameGenerator"
FLOW = [GENERATOR, DETECTION, ALIGNMENT]
INPUT = {
    DETECTION: {"image": f"{GENERATOR}.image"},
    ALIGNMENT: {"image": f"{GENERATOR}.image", "bbox": f"{DETECTION}.bbox", "prob": f"{DETECTION}.prob"},
    "Render": {"image": f"{ALIGNMENT}.image", "count": f"{ALIGNMENT}.count_result"},
}
DAG = {"generator": GENERATOR, "flow": FLOW, "input": INPUT}
Boxes = list[list[float]]


@dataclass
class Case:
    """files: sha256 → model. boxes: (size, model) → boxes of each frame, 0..1 of the picture; rows: of a node named
    `any`. fps: of the clip."""

    clip: Path
    dag: Dag
    stages: tuple[Stage, ...]
    files: Mapping[str, Path]
    frames: Sequence[Picture]
    boxes: dict[tuple[str, int], list[Boxes]] = field(default_factory=dict)
    rows: list[Measured] = field(default_factory=list)
    fps: float = FPS
    _known: dict[tuple[str, int, int], float] = field(default_factory=dict)

    @property
    def source(self) -> GeneratorInfo:
        """What a node says of the clip before a frame of it is seen."""
        return {"fps": self.fps, "width": SIZE[0], "height": SIZE[1]}

    def at(self, fps: float, folder: Path) -> Case:
        """The same frames, so many a second."""
        if fps == self.fps:
            return self
        clip = folder / f"clip-{fps:g}.mp4"
        if not clip.exists():
            _write(clip, self.frames, fps)
        return replace(self, clip=clip, fps=fps)

    @property
    def info(self) -> DagInfo:
        return {
            "generator": GENERATOR,
            "flow": list(FLOW),
            "input": INPUT,
            "stages": {
                stage.name: {
                    "kind": stage.kind,
                    "n_models": len(stage.variants),
                    "pictures": True,
                    "before": sorted(self.dag.before[stage.name]),
                }
                for stage in self.stages
            },
        }

    def quality(self, size: str, model: int, nskip: int) -> float:
        """F1 against the big model at full size on every frame, where a frame that is left out keeps the boxes of the
        one before."""
        key = (size, model, nskip)
        if key not in self._known:
            golden, boxes = self.boxes[SIZES[-1], 0], self.boxes[size, model]
            self._known[key] = held_f1(golden, boxes, nskip)
        return self._known[key]


def held_f1(golden: Sequence[Boxes], boxes: Sequence[Boxes], nskip: int) -> float:
    """Mean F1 when of 1 + nskip frames the first is looked at and the others keep its boxes."""
    scores = [f1(boxes[at - at % (1 + nskip)], truth) for at, truth in enumerate(golden)]
    return sum(scores) / len(scores)


def prepared(folder: Path) -> Case:
    """Writes the clip, faster and larger than its source, looks at it in each way, and takes the times."""
    frames = _frames(SHARED_DATA / "video" / CLIP)
    clip = folder / "clip.mp4"
    _write(clip, frames, FPS)
    stages: list[Stage] = []
    files: dict[str, Path] = {}
    for name, variants in VARIANTS.items():
        cards = tuple(tuple(_card(model, files) for model in models) for models in variants)
        stages.append(Stage(name, kinds()[name].name, cards))
    case = Case(clip, read_dag(DAG), tuple(stages), files, frames)
    for model in range(3):
        for size in SIZES:
            _look(case, size, model)
    return case


def opened(case: Case, stage: Stage, model: int) -> Any:
    cards = stage.variants[min(model, len(stage.variants) - 1)]
    return stage_class(stage.kind)([ModelFile(card, case.files[card.sha256]) for card in cards], stage.parameters)


def fitted(picture: Picture, size: str) -> Picture:
    image = Image.fromarray(picture)
    image.thumbnail(RESOLUTIONS[size], Image.Resampling.BILINEAR)
    return np.asarray(image)


def _look(case: Case, size: str, model: int) -> None:
    detection, alignment = (opened(case, stage, model) for stage in case.stages)
    taken: dict[str, list[float]] = {DETECTION: [], ALIGNMENT: []}
    boxes: list[Boxes] = []
    pictures = [fitted(frame, size) for frame in case.frames[:LOOKED_AT]]
    detection.run({"image": pictures[0]})
    for picture in pictures:
        began = time.perf_counter()
        answer = detection.run({"image": picture})
        between = time.perf_counter()
        alignment.run({"image": picture, "bbox": answer["bbox"], "prob": answer["prob"]})
        taken[DETECTION].append(between - began)
        taken[ALIGNMENT].append(time.perf_counter() - between)
        height, width = picture.shape[:2]
        boxes.append([[x1 / width, y1 / height, x2 / width, y2 / height] for x1, y1, x2, y2 in answer["bbox"]])
    case.boxes[size, model] = boxes
    bytes_ = sum(len(encode(picture)[0]) for picture in pictures[::8]) / len(pictures[::8])
    for stage, times in taken.items():
        case.rows.append(
            Measured(
                node="any",
                stage=stage,
                model_id=min(model, len(VARIANTS[stage]) - 1),
                resolution=size,
                delay_s=sorted(times)[len(times) // 2],
                bytes=bytes_,
                quality=1.0,
            )
        )


def rows_for(case: Case, nodes: Sequence[str]) -> list[Measured]:
    """The profile as it would be if each node had been measured. The quality of the alignment is its boxes'."""
    return [{**row, "node": node, "quality": _graded(case, row)} for row in case.rows for node in nodes]


def _graded(case: Case, row: Measured) -> float:
    return case.quality(row["resolution"], row["model_id"], 0) if row["stage"] == DETECTION else 1.0


def _card(model: str, files: dict[str, Path]) -> ModelCard:
    path = SHARED_DATA / "models" / f"{model}.onnx"
    data = path.read_bytes()
    sha = hashlib.sha256(data).hexdigest()
    files[sha] = path
    return ModelCard(model, Format.ONNX, sha, len(data))


def _frames(path: Path) -> list[Picture]:
    with av.open(str(path)) as container:
        pictures = [frame.to_image().resize(SIZE) for frame in islice(container.decode(video=0), 96)]
    return [np.asarray(picture) for picture in pictures]


def _write(path: Path, frames: Sequence[Picture], fps: float) -> None:
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=round(fps), options={"preset": "ultrafast", "crf": "20"})
        stream.width, stream.height, stream.pix_fmt = *SIZE, "yuv420p"
        for frame in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        container.mux(stream.encode(None))
