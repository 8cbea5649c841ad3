"""Suggestions in the form of a new conversion: buttons that fill in fields for a finding or a recognized model.
Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from app.conversion import presets
from app.conversion.intake.calibration_report import Finding
from app.conversion.intake.preprocess_reasons import REASONS
from app.conversion.intake.range_checks import LABELS
from app.conversion.options import Preprocess
from app.conversion.pages import new_form
from app.conversion.pages.new_form import Values, as_text
from app.conversion.service.previews import certain_preprocess
from app.inference.preprocess_options import read_preprocess
from app.kit.text.untrusted_json import UnreadableJson, read_object

Recognized = Mapping[str, Any] | None
"""Made by Recognition.to_json; None for a model that takes no pictures."""
LIKELY = 0.5
"""A recognized preprocessing is offered from this probability on, if the chosen one does not fit."""


@dataclass(frozen=True)
class Suggestion:
    """A button that fills in fields."""

    text: str
    """Text of the button, a gettext key with %(name)s for the entries of detail."""
    fields: Values
    detail: Mapping[str, Any] = field(default_factory=dict)
    is_taken: bool = False
    """True if the fields have these values already."""

    @property
    def value(self) -> str:
        """Value of the button; `patched` reads it."""
        return json.dumps(self.fields)


@dataclass(frozen=True)
class RecognizedModel:
    """What a model was recognized as."""

    title: str
    """Name of its family; empty if unknown."""
    reason: str
    """A gettext key."""
    detail: Mapping[str, Any]
    is_sure: bool
    likeliest: Suggestion
    others: tuple[Suggestion, ...]


def patch_values(values: Values, text: str) -> Values:
    """Returns the fields with those of a suggestion filled in. Unknown fields and invalid suggestions are ignored."""
    try:
        fields = read_object(text)
    except UnreadableJson:
        return values
    sent = {str(name): [value] for name, value in fields.items() if isinstance(value, str)}
    return new_form.settle(new_form.merge_values(values, sent))


def select_preprocess(values: Values, recognition: Recognized, earlier: Recognized = None) -> Values:
    """Selects the preprocessing recognized for a model that has just been chosen, if it is certain.

    A preprocessing that the reader has changed stays, and so does what was chosen after the model.

    Args:
        values: of the form, by field.
        recognition: of the chosen model.
        earlier: of the model that it replaces.
    """
    if not has_new_model(values):
        return values
    is_untouched = _is_taken(_fill_default_fields(earlier), values)
    return {**values, **(_fill_default_fields(recognition) if is_untouched else {}), "pre_for": values["model_key"]}


def has_new_model(values: Values) -> bool:
    """Returns whether a model has been chosen since the preprocessing was selected."""
    return values["model_key"] not in ("", values["pre_for"])


def describe_recognition(recognition: Recognized, values: Values) -> RecognizedModel | None:
    """Returns what was recognized, and whether the fields agree with it.

    Args:
        recognition: of the model.
        values: of the form, by field.
    """
    if not recognition or not recognition["confidence"]:
        return None
    others = (
        () if recognition["is_sure"] else tuple(_make_suggestion(each, values) for each in recognition["alternatives"])
    )
    return RecognizedModel(
        recognition["title"],
        REASONS[recognition["reason_code"]],
        recognition["reason_params"],
        recognition["is_sure"],
        _make_suggestion(recognition, values),
        others,
    )


def of_finding(finding: Finding, recognition: Recognized, values: Values) -> Suggestion | None:
    """Returns the suggestion that resolves a finding; None if only other pictures can."""
    detail = finding.detail
    match finding.code:
        case "STRETCHED":
            return Suggestion("Use letterbox", {"preprocess.resize": "letterbox"})
        case "CHANNEL_ORDER" | "MEAN_ORDER":
            return Suggestion("Use %(summary)s", {"preprocess.color": detail["order"]}, {"summary": detail["order"]})
        case "UNREADABLE" if values["allow_damaged_images"] != "1":
            return Suggestion("Leave them out", {"allow_damaged_images": "1"})
        case "OTHER_PREPROCESSING":
            name = next(name for name, label in LABELS.items() if label == detail["preset"])
            return Suggestion(
                "Use %(summary)s", preprocess_fields(presets.PREPROCESS[name]), {"summary": detail["preset"]}
            )
        case "WRONG_SCALE" | "WRONG_OFFSET" | "BYTES_RANGE" | "TINY_RANGE" if recognition:
            suggestion = _make_suggestion(recognition, values)
            is_likely = recognition["confidence"] >= LIKELY
            return suggestion if is_likely and not suggestion.is_taken else None
    return None


def preprocess_fields(chosen: Mapping[str, Any]) -> Values:
    """Returns the fields of a preprocessing; the fit of pictures stays as it is if the preprocessing does not name
    one."""
    preprocess = read_preprocess(chosen)
    preset = presets.preprocess_preset_of(preprocess)
    shown = {f"preprocess.{name}": as_text(getattr(preprocess, name)) for name in chosen}
    return {**shown, "pre": preset, "pre_was": preset}


def _make_suggestion(each: Mapping[str, Any], values: Values) -> Suggestion:
    fields = preprocess_fields(each["preprocess"])
    return Suggestion("Use %(summary)s", fields, {"summary": each["summary"]}, _is_taken(fields, values))


def _fill_default_fields(recognition: Recognized) -> Values:
    """Returns the fields of the preprocessing that applies to a model where nothing else is chosen."""
    return preprocess_fields((certain_preprocess(recognition) or Preprocess()).to_json())


def _is_taken(fields: Values, values: Values) -> bool:
    return all(_is_same(name, values.get(name, ""), text) for name, text in fields.items() if "." in name)


def _is_same(name: str, have: str, want: str) -> bool:
    """Compares two values of a field; "auto" is RGB for three channels and GRAY for one."""
    return have == want or (name == "preprocess.color" and "auto" in (have, want) and "BGR" not in (have, want))
