"""Names of models, as rows have them."""

from __future__ import annotations

import pytest

from app.inference.model_card import model_facts


@pytest.mark.parametrize(
    ("card", "facts"),
    [
        ("faces", {"model_name": "faces", "model_version": 1}),
        ("alice/faces@12", {"model_name": "alice/faces", "model_version": 12}),
        ("faces@3 + marks", {"model_name": "faces@3 + marks"}),
        ("", {}),
        (None, {}),
        (["faces"], {}),
        ("a\x1b[2Jb", {}),
        ("a" * 501, {}),
    ],
)
def test_a_row_names_the_model_and_its_version_and_nothing_that_is_no_name(
    card: object, facts: dict[str, object]
) -> None:
    assert model_facts(card) == facts
