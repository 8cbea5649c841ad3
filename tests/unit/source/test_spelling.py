"""Texts on pages and hints are spelled one way: the American. Only "cancelled" keeps its l, as the status is called."""

from __future__ import annotations

import re

from tests.harness.paths import REPOSITORY

BRITISH = re.compile(
    r"\b\w*(?:(?:optim|quant|recogn|normal|organ|synchron|summar|visual)is(?:e|es|ed|ing|ation)|colour|honour|favour|"
    r"neighbour|behaviour|catalogue|labelled|labelling|modelled|greys?|centred?|licence|artefact|analyse)\w*\b",
    re.IGNORECASE,
)


def test_texts_are_american() -> None:
    texts = {
        f"{path.name}:{number}": line
        for path in (REPOSITORY / "app" / "locale").rglob("*.po")
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if line.startswith(("msgid", '"'))
    }
    assert len(texts) > 1000
    assert {place: line for place, line in texts.items() if BRITISH.search(line)} == {}
