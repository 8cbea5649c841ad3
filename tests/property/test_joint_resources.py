"""Whatever is sent as a JointInferenceService: it is taken as it stays, or refused, and never changed."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import strategies as st

from app.joint_inference.documents import parse_document, parse_documents
from app.joint_inference.errors import InvalidResource
from app.joint_inference.validation import validate
from tests.harness.joint.resources import SEDNA, sample
from tests.harness.timed_search import searched

pytestmark = pytest.mark.slow
SECONDS = 2.0
_SEDNA = parse_document(SEDNA)
_LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=8)
_KEYS = st.sampled_from(
    [
        "apiVersion",
        "kind",
        "metadata",
        "spec",
        "status",
        "name",
        "namespace",
        "labels",
        "edgeWorker",
        "cloudWorker",
        "env",
        "model",
        "nodeName",
        "hardExampleAlgorithm",
        "workerSpec",
        "parameters",
        "key",
        "value",
        "template",
        "containers",
    ]
) | st.text(max_size=4)
_ANY = st.recursive(_LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=4))
_HEADS = st.sampled_from([("neptune.io/v1alpha1", "JointInferenceService"), ("sedna.io/v1alpha1", "List"), ("", "")])


@searched(_ANY, _HEADS, seconds=SECONDS)
def test_nothing_but_a_refusal_comes_of_any_json(value: Any, head: tuple[str, str]) -> None:
    if isinstance(value, dict):
        value = {**value, "apiVersion": head[0], "kind": head[1]}
    _taken_or_refused(value)


@searched(st.data(), seconds=SECONDS)
def test_nothing_but_a_refusal_comes_of_a_sample_with_anything_in_any_place(data: st.DataObject) -> None:
    resource: Any = sample() if data.draw(st.booleans()) else copy.deepcopy(_SEDNA)
    place = data.draw(st.sampled_from(list(_containers(resource))))
    key = data.draw(st.sampled_from(sorted(place)) if isinstance(place, dict) else st.just(0))
    place[key] = data.draw(_ANY)
    _taken_or_refused(resource)


@searched(st.text(max_size=60) | st.binary(max_size=60), seconds=SECONDS / 8)
def test_nothing_but_a_refusal_comes_of_any_text(text: str | bytes) -> None:
    try:
        parse_documents(text)
    except InvalidResource as error:
        assert error.detail["problems"]


def _taken_or_refused(resource: Any) -> None:
    before = copy.deepcopy(resource)
    try:
        checked = validate(resource)
        assert validate(checked) == checked
        json.dumps(checked, ensure_ascii=False, allow_nan=False).encode()
    except InvalidResource as error:
        json.dumps(error.to_dict(), ensure_ascii=False, allow_nan=False).encode()
    assert repr(resource) == repr(before), "it was changed"


def _containers(value: Any) -> Any:
    if isinstance(value, dict | list) and value:
        yield value
        for item in value.values() if isinstance(value, dict) else value:
            yield from _containers(item)
