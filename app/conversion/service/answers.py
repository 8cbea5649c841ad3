"""Answers of a host conversion to its worst pictures, float and int8: computed on first use in the sandbox, and stored
beside the job's outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from app.conversion import object_keys
from app.conversion.intake.entry_points import DRAW_ANSWERS, AnswersRequest, AnswersResult, ModelAnswer
from app.conversion.model import JobRecord, Stage
from app.conversion.options import ToolchainName
from app.conversion.service import Conversion
from app.conversion.service.quality.views import Quality
from app.conversion.toolchains.base import OUTPUTS
from app.inference.prediction import Figure, boxes_of
from app.kit.errors import ModelmillError
from app.kit.objects import ObjectMissing
from app.kit.objects.content import find_content, put_json, read_json
from app.kit.process.keyed_locks import KeyedLocks

MEDIA_TYPE = "image/webp"
PICTURES_MOST = 12
FORM = 1
"""Version of the stored data; increment it when its content changes."""
MEMORY_BYTES = 4 << 30
TIME_S = 50.0
"""A reader is waiting for the page."""
FLOAT, INT8 = OUTPUTS[Stage.ONNX], OUTPUTS[Stage.BIE]


@dataclass(frozen=True)
class Box:
    """Corners in pixels of the displayed picture."""

    x: float
    y: float
    width: float
    height: float
    score: float
    label: str
    figure: Figure
    """Its visible key points and its mask."""


@dataclass(frozen=True)
class Answer:
    boxes: tuple[Box, ...] = ()
    classes: tuple[tuple[str, float], ...] = ()
    """The most likely classes with their probabilities, for a classifier."""


@dataclass(frozen=True)
class AnsweredPicture:
    place: int
    """Index among the worst samples."""
    width: int
    height: int
    float_: Answer
    int8: Answer

    @property
    def class_pairs(self) -> list[tuple[tuple[str, float], tuple[str, float]]]:
        """The most likely classes of both, position by position."""
        return list(zip(self.float_.classes, self.int8.classes, strict=False))

    @property
    def is_alike(self) -> bool:
        """Whether both agree: the same most likely class, or the same number of boxes of each name."""
        first, second = self.float_, self.int8
        if first.classes or second.classes:
            return first.classes[:1] != () and first.classes[0][0] == second.classes[0][0]
        return sorted(box.label for box in first.boxes) == sorted(box.label for box in second.boxes)


@dataclass(frozen=True)
class Answers:
    problem: str
    """Why there are no answers; empty if there are."""
    decoder: str
    is_sure: bool
    """If not, the model's numbers are shown as a classifier's, which they may not be."""
    pictures: tuple[AnsweredPicture, ...]


_at_work = KeyedLocks()
"""By job id: two concurrent requests for a page compute the answers once."""


def may_answer(record: JobRecord, quality: Quality) -> bool:
    """Whether answers are possible. A vendor's BIE runs only in the vendor's simulator."""
    is_host = record.options.toolchain is ToolchainName.HOST
    return is_host and FLOAT in record.artifacts and INT8 in record.artifacts and bool(quality.worst_samples)


def load_answers(conversion: Conversion, record: JobRecord) -> Answers | None:
    """The stored answers; None if there are none."""
    try:
        matching = read_json(conversion.jobs.objects, _build_key(record, "answers.json"))
    except ObjectMissing:
        return None
    return read_answers(matching) if matching.get("form") == FORM else None


def answers(conversion: Conversion, record: JobRecord, quality: Quality) -> Answers | None:
    """Returns the answers to quality.worst_samples, computed now if necessary; None if they are impossible.

    Args:
        record: Already checked to be the user's.
    """
    matching = load_answers(conversion, record)
    if matching is not None or not may_answer(record, quality):
        return matching
    with _at_work.of(record.job_id):
        names = [sample.name for sample in quality.worst_samples[:PICTURES_MOST]]
        return load_answers(conversion, record) or _make_answers(conversion, record, names)


def picture(conversion: Conversion, record: JobRecord, place: int) -> bytes | None:
    """WebP of a picture with answers; None if there is none."""
    return find_content(conversion.jobs.objects, _build_key(record, f"{place}.webp"))


def _build_key(record: JobRecord, name: str) -> str:
    return object_keys.extra_file(record.job_id, f"answers/{name}")


def _make_answers(conversion: Conversion, record: JobRecord, names: Sequence[str]) -> Answers | None:
    """Stored for the next time, unless the sandbox failed."""
    objects = conversion.jobs.objects
    with conversion.uploads.intake.folder("answers-") as folder:
        try:
            objects.get_file(object_keys.input_(record.job_id, object_keys.IMAGES), folder / object_keys.IMAGES)
            for name in (FLOAT, INT8):
                objects.get_file(record.artifacts[name].key, folder / name)
            matching = _run(conversion, record, folder, names)
        except ObjectMissing:  # the inputs or outputs were deleted meanwhile
            return None
        except ModelmillError as error:
            return Answers(error.message, "", is_sure=False, pictures=())
        for entry in matching["pictures"]:
            file = f"{entry['place']}.webp"
            objects.put_file(_build_key(record, file), folder / "into" / file, content_type=MEDIA_TYPE)
        put_json(objects, _build_key(record, "answers.json"), {"form": FORM, **matching})
    return read_answers(matching)


def _run(conversion: Conversion, record: JobRecord, folder: Path, names: Sequence[str]) -> AnswersResult:
    intake = conversion.uploads.intake
    request: AnswersRequest = {
        "float": str(folder / FLOAT),
        "int8": str(folder / INT8),
        "preprocess": record.options.preprocess.to_json(),
        **intake.samples_in(folder),
        "into": str(folder / "into"),
        "names": list(names),
    }
    return intake.run(DRAW_ANSWERS, request, folder, memory_bytes=MEMORY_BYTES, time_s=TIME_S)


def read_answers(matching: AnswersResult) -> Answers:
    """Reads the result of DRAW_ANSWERS."""
    labels = matching.get("labels", [])
    pictures = tuple(
        AnsweredPicture(
            entry["place"],
            entry["width"],
            entry["height"],
            _read_answer(entry["float"], labels),
            _read_answer(entry["int8"], labels),
        )
        for entry in matching["pictures"]
    )
    return Answers(matching["problem"], matching.get("decoder", ""), bool(matching.get("is_sure")), pictures)


def _read_answer(matching: ModelAnswer, labels: Sequence[str]) -> Answer:
    boxes = tuple(
        Box(
            min(box.x1, box.x2),
            min(box.y1, box.y2),
            abs(box.x2 - box.x1),
            abs(box.y2 - box.y1),
            box.score,
            box.text or _name(box.label, labels),
            box.figure,
        )
        for box in boxes_of(matching["boxes"], matching)
    )
    return Answer(boxes, tuple((_name(label, labels), value) for label, value in matching["classes"]))


def _name(label: int, labels: Sequence[str]) -> str:
    return labels[label] if 0 <= label < len(labels) else str(label)
