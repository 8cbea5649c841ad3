"""Previews of an upload, before it is submitted: facts about the model, and an assessment of the samples.

The files are only ever opened in a sandbox child. The result is stored beside the input, so each file is read once, and
checked again (which is pure) whenever the options change.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from app.conversion import object_keys
from app.conversion.errors import KeyNotFound
from app.conversion.intake import calibration_checks
from app.conversion.intake.calibration_checks import CalibrationTarget
from app.conversion.intake.calibration_report import ArrayStats, Finding, PictureStats, SampleStats, UnreadableSample
from app.conversion.intake.entry_points import (
    PREVIEW_MODEL,
    PREVIEW_PICTURES,
    ModelPreviewRequest,
    ModelPreviewResult,
    OpenInput,
    PicturesPreviewRequest,
    PicturesPreviewResult,
)
from app.conversion.intake.range_checks import ExpectedRange
from app.conversion.options import Chip, Options, Preprocess, ToolchainName
from app.conversion.service.intake_sandbox import ABORTS, IntakeSandbox
from app.conversion.service.submissions import StoredInput
from app.conversion.toolchains.facts import GraphFacts, GraphTensor, MissingOperator
from app.inference.preprocess_options import read_preprocess
from app.kit.errors import BadInput, ModelmillError, TooLarge
from app.kit.objects import ObjectMissing, ObjectStore
from app.kit.objects.content import put_json, read_content, read_json
from app.kit.sandbox.errors import StageCrashed
from app.kit.sandbox.runner import Sandbox
from app.kit.text.json_values import JsonObject
from app.settings import Settings

FORM = 3
"""Version of the stored previews; increment it when their content changes."""
PREVIEW_TIME_S = 50.0
"""A reader is waiting for the page. Checks that take longer are left to the submission."""
THUMB = re.compile(r"\d{1,2}\.jpg")
Shapes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class ModelPreview:
    facts: GraphFacts | None = None
    open_inputs: tuple[OpenInput, ...] = ()
    expectation: ExpectedRange = field(default_factory=ExpectedRange)
    recognition: JsonObject | None = None
    """The preprocessing that it was trained with, see Recognition.to_json; None for a model that takes no pictures."""
    missing: dict[str, list[MissingOperator]] = field(default_factory=dict)
    """Operators that a chip probably lacks, by chip."""
    problems: dict[str, ModelmillError] = field(default_factory=dict)
    """Why it cannot be used, by toolchain."""
    failure: ModelmillError | None = None
    """Why it cannot be used at all."""

    def problem(self, toolchain: ToolchainName) -> ModelmillError | None:
        return self.failure or self.problems.get(toolchain.value)

    def missing_on(self, chip: Chip | None) -> list[MissingOperator]:
        return self.missing.get(chip.value, []) if chip else []


@dataclass(frozen=True)
class PicturesPreview:
    measured: SampleStats = field(default_factory=lambda: SampleStats(0))
    size_bytes: int = 0
    formats: dict[str, int] = field(default_factory=dict)
    looked_at: int = 0
    thumbnails: tuple[dict[str, str], ...] = ()
    failure: ModelmillError | None = None
    """Why the samples cannot be used with this model, or at all; the rest may then be empty."""


@dataclass(eq=False, repr=False)
class Previews:
    """
    Args:
        find_input: See Submissions.
    """

    settings: Settings
    objects: ObjectStore
    sandbox: Sandbox
    find_input: Callable[[str, str], StoredInput]

    def __post_init__(self) -> None:
        self.intake = IntakeSandbox(self.settings, self.sandbox)

    def size_bytes(self, key: str, owner: str) -> int:
        """Returns the size of a stored input.

        Raises:
            KeyNotFound: It is not here, or not one that this user may use.
        """
        try:
            return self.find_input(key, owner).size_bytes
        except ObjectMissing:
            raise KeyNotFound("this file is no longer here", hint="Send it again: it is kept for a day.") from None

    def model(self, key: str, owner: str) -> ModelPreview:
        """Returns what is known of a stored model, which is looked at the first time.

        Raises:
            KeyNotFound: See `size_bytes`.
        """
        self.size_bytes(key, owner)
        facts = self._get_or_make(_build_key(key, "look-model.json"), lambda: self._preview_model(key))
        if "error" in facts:
            return ModelPreview(failure=ModelmillError.from_dict(facts["error"]))
        return ModelPreview(
            facts=facts["facts"],
            open_inputs=tuple(facts["open_inputs"]),
            expectation=ExpectedRange(**facts["expects"]),
            recognition=facts["recognition"],
            missing=facts["missing"],
            problems={name: ModelmillError.from_dict(error) for name, error in facts["problems"].items()},
        )

    def pictures(
        self, key: str, owner: str, model: ModelPreview | None = None, shapes: Shapes | None = None
    ) -> PicturesPreview:
        """Measures the reference samples, or returns the stored measurements.

        Args:
            model: What the samples are for.
            shapes: Fixed shapes of its inputs: arrays can only be measured against inputs of known shape.
        """
        self.size_bytes(key, owner)
        inputs = _fix_inputs(model, shapes or {})
        digest = hashlib.sha256(json.dumps(inputs).encode()).hexdigest()[:12] if inputs else "any"
        facts = self._get_or_make(_build_key(key, f"look-{digest}.json"), lambda: self._preview_pictures(key, inputs))
        if "error" in facts:
            return PicturesPreview(failure=ModelmillError.from_dict(facts["error"]))
        return _read_pictures_preview(facts)

    def findings(self, preview: PicturesPreview, model: ModelPreview | None, options: Options) -> list[Finding]:
        """The findings of the calibration checks for these samples, this model and these options. Pure."""
        target = _make_target(model, options.input_shapes)
        allow = options.allow_damaged_images
        return calibration_checks.diagnose(preview.measured, target, options.preprocess, allow_damaged=allow)

    def thumbnail(self, key: str, file: str, owner: str) -> bytes:
        """Returns the JPEG of a sample.

        Raises:
            KeyNotFound: See `size_bytes`.
            ObjectMissing: There is no such thumbnail.
        """
        self.size_bytes(key, owner)
        if not THUMB.fullmatch(file):
            raise ObjectMissing(f"There is no thumbnail {file!r}.")
        return read_content(self.objects, _build_key(key, f"thumbs/{file}"))

    def _get_or_make(self, at: str, make: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any]:
        """The stored preview, or a new one. An invalid file is stored as a result; our own failure is not."""
        try:
            stored: JsonObject = read_json(self.objects, at)
            if stored.get("form") == FORM:
                return stored
        except ObjectMissing:
            pass
        try:
            facts = make()
        except ABORTS as error:
            return {"error": _make_error(error).to_dict()}
        except (BadInput, TooLarge) as error:
            facts = {"error": error.to_dict()}
        put_json(self.objects, at, {"form": FORM, **facts})
        return facts

    def _preview_model(self, key: str) -> ModelPreviewResult:
        with self.intake.folder("look-") as folder:
            self.objects.get_file(key, folder / object_keys.MODEL)
            request: ModelPreviewRequest = {
                "model": str(folder / object_keys.MODEL),
                "toolchains": [name.value for name in self.settings.toolchains],
                "max_bytes": self.settings.max_model_bytes,
            }
            return self.intake.run(PREVIEW_MODEL, request, folder, time_s=PREVIEW_TIME_S)

    def _preview_pictures(self, key: str, inputs: list[GraphTensor] | None) -> PicturesPreviewResult:
        with self.intake.folder("look-") as folder:
            self.objects.get_file(key, folder / object_keys.IMAGES)
            request: PicturesPreviewRequest = {
                **self.intake.samples_in(folder),
                "thumbs": str(folder / "thumbs"),
                "inputs": inputs,
            }
            facts = self.intake.run(PREVIEW_PICTURES, request, folder, time_s=PREVIEW_TIME_S)
            files = [thumb["file"] for thumb in facts["thumbnails"]]
            if not all(THUMB.fullmatch(file) and (folder / "thumbs" / file).is_file() for file in files):
                raise StageCrashed("its check ended with an invalid result")
            for file in files:
                thumb = folder / "thumbs" / file
                self.objects.put_file(_build_key(key, f"thumbs/{file}"), thumb, content_type="image/jpeg")
            return facts


def certain_preprocess(recognition: Mapping[str, Any] | None) -> Preprocess | None:
    """Returns the preprocessing that a model was trained with; None if it is not certain.

    Args:
        recognition: of the model, see Recognition.to_json.
    """
    return read_preprocess(recognition["preprocess"]) if recognition and recognition["is_sure"] else None


def _build_key(key: str, name: str) -> str:
    return f"{key.rpartition('/')[0]}/{name}"


def _make_error(error: ModelmillError) -> BadInput:
    return BadInput(
        f"The file could not be looked at: {error.message}.",
        hint="You may submit it all the same; it is checked again then, with more time.",
        detail={"cause": error.code},
    )


def _fix_inputs(model: ModelPreview | None, shapes: Shapes) -> list[GraphTensor] | None:
    """The model's inputs with fixed shapes; None if one is open."""
    if model is None or model.facts is None:
        return None
    fixed: list[GraphTensor] = [{**entry, "shape": _fix_shape(entry, shapes)} for entry in model.facts["inputs"]]
    return fixed if all(all(isinstance(axis, int) for axis in entry["shape"]) for entry in fixed) else None


def _fix_shape(entry: GraphTensor, shapes: Shapes) -> list[Any]:
    if entry["name"] in shapes:
        return list(shapes[entry["name"]])
    axes = list(entry["shape"])
    is_batch_open = bool(axes) and not isinstance(axes[0], int) and all(isinstance(axis, int) for axis in axes[1:])
    return [1, *axes[1:]] if is_batch_open and axes != ["..."] else axes


def _make_target(model: ModelPreview | None, shapes: Shapes) -> CalibrationTarget:
    if model is None or model.facts is None:
        return CalibrationTarget()
    inputs = [_fix_shape(entry, shapes) for entry in model.facts["inputs"]]
    return calibration_checks.target_of(inputs, model.expectation, certain_preprocess(model.recognition))


def _read_pictures_preview(facts: Mapping[str, Any]) -> PicturesPreview:
    measured = SampleStats(
        count=facts["count"],
        pictures=[PictureStats(**entry) for entry in facts["pictures"]],
        arrays=[ArrayStats(**entry) for entry in facts["arrays"]],
        unreadable=[UnreadableSample(**entry) for entry in facts["unreadable"]],
        kinds=facts["kinds"],
        ignored=facts["ignored"],
    )
    problem = facts["problem"]
    return PicturesPreview(
        measured,
        facts["size_bytes"],
        facts["formats"],
        facts["looked_at"],
        tuple(facts["thumbnails"]),
        ModelmillError.from_dict(problem) if problem else None,
    )
