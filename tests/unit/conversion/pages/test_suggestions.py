"""What the form of a new conversion offers at a button."""

from __future__ import annotations

from typing import Any

import pytest

from app.conversion.intake.calibration_report import WARNS, Finding
from app.conversion.options import Options, Preprocess
from app.conversion.pages import new_form, suggestions

VALUES = new_form.values_of(Options())
BGR = Preprocess(color="BGR", scale=1.0, resize="letterbox", pad_value=0)


def recognition(*, confidence: float = 0.95) -> dict[str, Any]:
    return {
        "title": "YuNet",
        "preprocess": BGR.to_json(),
        "summary": "BGR, x, letterbox 0",
        "confidence": confidence,
        "is_sure": confidence >= 0.9,
        "reason_code": "family",
        "reason_params": {"title": "YuNet"},
        "alternatives": [{"preprocess": Preprocess().to_json(), "summary": "auto", "confidence": 0.05}],
    }


def finding(code: str, **detail: Any) -> Finding:
    return Finding(code, WARNS, "", "", "", detail=detail)


def test_what_is_recognized_is_offered_and_once_taken_says_so() -> None:
    recognized = suggestions.describe_recognition(recognition(), VALUES)
    assert recognized and not recognized.likeliest.is_taken and recognized.others == ()
    taken = suggestions.patch_values(VALUES, recognized.likeliest.value)
    assert new_form.preprocess_of(taken) == BGR
    assert taken["pre"] == "bytes_bgr"
    again = suggestions.describe_recognition(recognition(), taken)
    assert again and again.likeliest.is_taken


def test_where_it_is_not_sure_the_next_likely_are_offered_too() -> None:
    recognized = suggestions.describe_recognition(recognition(confidence=0.6), VALUES)
    assert recognized and [other.is_taken for other in recognized.others] == [True]
    assert suggestions.describe_recognition({**recognition(), "confidence": 0.0}, VALUES) is None
    assert suggestions.describe_recognition(None, VALUES) is None


def test_what_is_certain_is_selected_with_the_model_once() -> None:
    chosen = {**VALUES, "model_key": "first"}
    with_first = suggestions.select_preprocess(chosen, recognition())
    assert new_form.preprocess_of(with_first) == BGR
    assert with_first["pre_for"] == "first"
    changed = new_form.settle({**with_first, "pre": "unit"})
    assert suggestions.select_preprocess(changed, recognition()) == changed


@pytest.mark.parametrize("known", [None, recognition(confidence=0.6)])
def test_what_is_not_certain_is_not_selected(known: dict[str, Any] | None) -> None:
    chosen = {**VALUES, "model_key": "first"}
    assert suggestions.select_preprocess(chosen, known) == {**chosen, "pre_for": "first"}
    assert suggestions.select_preprocess(VALUES, recognition()) == VALUES


def test_another_model_replaces_what_was_selected_for_the_first() -> None:
    replaced = {**suggestions.select_preprocess({**VALUES, "model_key": "first"}, recognition()), "model_key": "second"}
    assert new_form.preprocess_of(suggestions.select_preprocess(replaced, None, recognition())) == Preprocess()
    assert new_form.preprocess_of(suggestions.select_preprocess(replaced, recognition(), recognition())) == BGR


def test_a_preprocessing_of_one_s_own_stays_whichever_model_is_chosen() -> None:
    own = new_form.settle({**VALUES, "pre": "signed", "model_key": "first"})
    with_first = suggestions.select_preprocess(own, recognition())
    again = suggestions.select_preprocess({**with_first, "model_key": "second"}, recognition(), recognition())
    assert again == {**own, "model_key": "second", "pre_for": "second"}


@pytest.mark.parametrize(
    ("code", "detail", "fields"),
    [
        ("STRETCHED", {}, {"preprocess.resize": "letterbox"}),
        ("CHANNEL_ORDER", {"order": "BGR"}, {"preprocess.color": "BGR"}),
        ("UNREADABLE", {}, {"allow_damaged_images": "1"}),
        ("OTHER_PREPROCESSING", {"preset": "(x − 127) / 128"}, {"preprocess.mean": "127", "pre": "shift127"}),
        ("WRONG_SCALE", {}, {"preprocess.color": "BGR", "preprocess.scale": "1"}),
    ],
)
def test_a_finding_has_a_button_where_fields_answer_it(
    code: str, detail: dict[str, str], fields: dict[str, str]
) -> None:
    suggestion = suggestions.of_finding(finding(code, **detail), recognition(), VALUES)
    assert suggestion and fields.items() <= suggestion.fields.items()
    assert fields.items() <= suggestions.patch_values(VALUES, suggestion.value).items()


def test_where_only_other_pictures_help_there_is_none() -> None:
    assert suggestions.of_finding(finding("DARK"), recognition(), VALUES) is None
    assert suggestions.of_finding(finding("WRONG_SCALE"), None, VALUES) is None
    assert suggestions.of_finding(finding("UNREADABLE"), None, {**VALUES, "allow_damaged_images": "1"}) is None


def test_what_is_nested_deeply_is_no_suggestion() -> None:
    assert suggestions.patch_values(VALUES, "[" * 100_000) == VALUES
