"""The table of faults names tests that exist, and has each kind of sink and of stream."""

from __future__ import annotations

import re

from app.inference.sources.factory import STREAMS
from app.results.model.sink import SinkKind
from tests.harness.paths import REPOSITORY

TEXT = (REPOSITORY / "docs/faults.md").read_text()
TESTS = dict(re.findall(r"^- (T\d+): `(.+)`$", TEXT, re.MULTILINE))
ROWS = re.findall(r"^\| (.+?) \| (.+) \|$", TEXT, re.MULTILINE)

HEADS = ("source", "sink", "recording, RTSP out", "node")
"""First cells of the rows that are none of a kind."""


def test_every_named_test_exists() -> None:
    for place in TESTS.values():
        path, _, name = place.partition("::")
        assert f"\ndef {name}(" in (REPOSITORY / path).read_text(), place


def test_every_cell_names_tests_or_a_reason_that_are_below() -> None:
    cells = [part for head, row in ROWS if head not in HEADS for part in re.split(r" \| |, ", row)]
    named = {cell for cell in cells if re.fullmatch(r"T\d+", cell)} | set(re.findall(r"\((T\d+)\)", TEXT))
    reasons = {cell for cell in cells if re.fullmatch(r"\(\w\)", cell)}
    assert named == set(TESTS)
    assert reasons == set(re.findall(r"^- (\(\w\)) ", TEXT, re.MULTILINE))
    assert set(cells) - named - reasons == set()


def test_every_kind_of_sink_and_of_stream_has_a_row() -> None:
    heads = " ".join(head for head, _ in ROWS)
    schemes = {"rtsp": "RTSP over TCP", "rtspt": "RTSP over TCP", "rtspu": "RTSP over UDP"}
    for word in [f"`{kind}`" for kind in SinkKind] + [schemes.get(scheme, f"`{scheme}://`") for scheme in STREAMS]:
        assert word in heads, word
