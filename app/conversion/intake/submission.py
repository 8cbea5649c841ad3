"""The sandbox entry point of intake: one request in, plain data out."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

import onnx

from app.conversion.errors import BadLabels, SamplesTooLarge
from app.conversion.intake import calibration_checks
from app.conversion.intake.archive import Unpacked, unpack
from app.conversion.intake.calibration_report import INFORMS, SampleStats
from app.conversion.intake.entry_points import SubmissionRequest, SubmissionResult
from app.conversion.intake.model_checks import CheckedModel, check_model
from app.conversion.intake.preprocess_recognition import Recognition, summary_of
from app.conversion.intake.sample_measurement import measure_samples
from app.conversion.model.stage_key import CALIBRATION
from app.conversion.options import Options, Preprocess
from app.conversion.toolchains.base import FEW_SAMPLES, GOOD_SAMPLES, Progress
from app.conversion.toolchains.facts import WarningRow
from app.conversion.toolchains.samples import KINDS, SampleSet
from app.conversion.toolchains.samples.labels import labels_of
from app.inference.model_families import family_table
from app.kit.files import sha256_of
from app.kit.text.json_values import JsonObject
from app.kit.text.plain_text import names_text

NAMED_AT_MOST = 10
MEASURED_AT_MOST = 200
"""How many samples are measured at a submission; the page of a new conversion measures more."""
TOLD_HERE = frozenset({"FEW_SAMPLES", "UNREADABLE", "FILES_IGNORED"})


def rehearse() -> None:
    """Load everything that the checks look up, so that a fork server's children do not load it again."""
    family_table()
    onnx.defs.get_all_schemas()


def check_submission(request: SubmissionRequest, progress: Progress) -> SubmissionResult:
    """Check model and reference samples against each other and the options.

    Raises:
        BadInput: One of the intake errors.
    """
    options = Options.model_validate(request["options"])
    model, packed = Path(request["model"]), Path(request["images"])
    _refuse_large(packed, request["images_bytes"])
    progress(0.0, "checking the model")
    checked = check_model(model, options, max_bytes=request["model_bytes"])
    progress(0.3, "unpacking the reference samples")
    folder = Path(request["unpack_to"])
    unpacked = unpack(request)
    progress(0.5, "reading the reference samples")
    recognition = checked.recognition if request.get("is_preprocess_open") and _has_pictures(unpacked) else None
    is_taken = recognition is not None and recognition.is_sure
    if recognition and is_taken:
        options = options.model_copy(update={"preprocess": recognition.preprocess})
    samples = SampleSet(folder, checked.inputs, options.preprocess, skip_damaged=options.allow_damaged_images)
    _refuse_many(len(samples), request["limits"]["max_images"])
    facts = samples.check(lambda fraction: progress(0.5 + fraction * 0.45, "reading the reference samples"))
    labels = _count_labels(folder, samples)
    findings = _diagnose(measure_samples(folder, unpacked, checked.inputs, MEASURED_AT_MOST)[0], checked, options)
    digests = {path.name: sha256_of(path) for path in (model, packed)}
    progress(1.0, "checked")
    return {
        "model": checked.facts,
        "samples": {**facts, "ignored": unpacked.ignored[:100], "labeled": labels},
        "warnings": checked.warnings
        + _warn_of_doubts(recognition)
        + _collect_sample_warnings(facts, unpacked)
        + findings,
        "changes": checked.changes,
        "recognition": {**checked.recognition.to_json(), "is_taken": is_taken} if checked.recognition else None,
        "sha256": digests,
        CALIBRATION: _digest_samples(folder, [*unpacked.files, *filter(None, [unpacked.labels])]),
    }


def _count_labels(folder: Path, samples: SampleSet) -> int:
    """Returns how many samples have labels.

    Raises:
        BadLabels: No label belongs to a sample.
    """
    labels = labels_of(folder)
    if labels is None:
        return 0
    count = sum(labels.of(name) is not None for name in samples.names)
    if not count:
        raise BadLabels(
            f"none of the {len(samples)} reference samples is named in the labels",
            hint="Name files as they are in the archive, such as day/0001.jpg, or by their name alone.",
        )
    return count


def _digest_samples(folder: Path, names: Iterable[str]) -> str:
    """Returns a digest of the samples by name and content, sorted by name, regardless of their packing."""
    manifest = [[name, sha256_of(folder / name)] for name in sorted(names)]
    return hashlib.sha256(json.dumps(manifest).encode()).hexdigest()


def _has_pictures(unpacked: Unpacked) -> bool:
    """Returns whether any sample is a picture; only pictures are preprocessed."""
    return "image" in {KINDS.get(PurePosixPath(name).suffix.lower()) for name in unpacked.files}


def _warn_of_doubts(recognition: Recognition | None) -> list[WarningRow]:
    """Warns if no preprocessing was chosen, none is certain, and the most likely one is not the default."""
    if recognition is None or recognition.is_sure or recognition.is_default:
        return []
    text = (
        f"no preprocessing was chosen, so the default is used: {summary_of(Preprocess())}; this model more likely "
        f"expects {recognition.summary} ({recognition.confidence:.0%})"
    )
    return [{"code": "PREPROCESS_UNSURE", "message": text, "detail": recognition.to_json()}]


def _refuse_large(packed: Path, max_bytes: int) -> None:
    size = packed.stat().st_size
    if size > max_bytes:
        raise SamplesTooLarge(
            f"the reference samples have {size:,} bytes; {max_bytes:,} are allowed",
            hint="Send fewer or smaller samples.",
            detail={"size_bytes": size, "max_bytes": max_bytes},
        )


def _refuse_many(count: int, max_count: int) -> None:
    if count > max_count:
        raise SamplesTooLarge(
            f"there are {count} reference samples; at most {max_count} are taken",
            hint="Fewer, well chosen samples calibrate as well: a few hundred are plenty.",
            detail={"samples": count, "max_images": max_count},
        )


def _collect_sample_warnings(facts: JsonObject, unpacked: Unpacked) -> list[WarningRow]:
    warnings = list[WarningRow]()
    count, skipped, ignored = facts["samples"], [entry["name"] for entry in facts["skipped"]], unpacked.ignored
    if count < FEW_SAMPLES:
        text = f"{count} reference samples are few for calibration; about {GOOD_SAMPLES} give better ranges"
        warnings.append({"code": "FEW_SAMPLES", "message": text, "detail": {"samples": count}})
    if skipped:
        text = f"{len(skipped)} reference samples cannot be read and are left out: {names_text(skipped, NAMED_AT_MOST)}"
        warnings.append({"code": "SAMPLES_SKIPPED", "message": text, "detail": {"skipped": facts["skipped"]}})
    if ignored:
        text = f"{len(ignored)} files of the zip are no samples and are ignored: {names_text(ignored, NAMED_AT_MOST)}"
        warnings.append({"code": "FILES_IGNORED", "message": text, "detail": {"ignored": ignored[:100]}})
    return warnings


def _diagnose(measured: SampleStats, checked: CheckedModel, options: Options) -> list[WarningRow]:
    """Returns the warnings of the calibration checks, except those that are reported here already."""
    recognition = checked.recognition
    trained_with = recognition.preprocess if recognition and recognition.is_sure else None
    target = calibration_checks.target_of([spec.shape for spec in checked.inputs], checked.expectation, trained_with)
    findings = calibration_checks.diagnose(
        measured, target, options.preprocess, allow_damaged=options.allow_damaged_images
    )
    return [
        {
            "code": finding.code,
            "message": f"{finding.message} {finding.advice}".strip() % finding.detail,
            "detail": {**finding.detail, "samples": list(finding.samples[:100])},
        }
        for finding in findings
        if finding.severity != INFORMS and finding.code not in TOLD_HERE
    ]
