"""What grows by an entry now and then is complete everywhere: each decoder, kind of sink, event and workload is in the
manual, has its words on pages, and has what carries it out."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum
from typing import Any

import pytest

from app.bootstrap.container import assemble
from app.conversion.cli.sources import is_source
from app.edge.video.stages.registry import BUNDLED as STAGES
from app.exchange.model import FORMS
from app.exchange.model import Kind as SourceKind
from app.inference.decoders import FAMILIES
from app.inference.prediction import Decoder
from app.joint_inference.hard_examples.registry import BUNDLED as ALGORITHMS
from app.kit.web.templates import environment
from app.notifications.model import TEST, EventKind
from app.notifications.model import Kind as Channel
from app.notifications.texts import subject_line
from app.results.model.sink import SCHEMES, SinkContent, SinkKind, kind_of
from app.settings import Settings
from app.training.model import Workload
from app.training.spec.overrides import ALLOWED
from app.training.workloads.programs import PROGRAMS
from app.video.scheduling.registry import PRODUCT as POLICIES
from tests.harness.paths import REPOSITORY

MANUAL: dict[str, Iterable[str]] = {
    "joint-inference.md": [*Decoder, *ALGORITHMS],
    "results.md": SinkKind,
    "notifications.md": [*Channel, *EventKind, TEST],
    "training.md": Workload,
    "video.md": [*POLICIES, *(stage.kind.name for stage in STAGES)],
    "sources-and-exports.md": SourceKind,
}
WORDS: dict[tuple[str, str], Iterable[StrEnum | str]] = {
    ("models/_words.html", "decoder_name"): Decoder,
    ("results/_words.html", "kind_name"): SinkKind,
    ("results/_words.html", "content_name"): SinkContent,
    ("notifications/_words.html", "kind_word"): Channel,
    ("notifications/_words.html", "event_word"): [*EventKind, TEST],
    ("training/_words.html", "workload_name"): Workload,
}
"""Macros by template and name, with all that they may be given."""


@pytest.mark.parametrize(("document", "name"), [(file, name) for file, names in MANUAL.items() for name in names])
def test_the_manual_has_every_entry(document: str, name: str) -> None:
    rows = [line for line in (REPOSITORY / "docs" / document).read_text().splitlines() if line.startswith("|")]
    assert any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", row) for row in rows)


@pytest.mark.parametrize(
    ("template", "macro", "value"), [(*macro, value) for macro, values in WORDS.items() for value in values]
)
def test_pages_have_words_for_every_entry(template: str, macro: str, value: Any) -> None:
    words = environment("en").get_template(template).module
    assert getattr(words, macro)(value).strip()


def test_every_decoder_has_a_family_that_is_recognized_in_turn() -> None:
    assert {family.name for family in FAMILIES} == set(Decoder) - {Decoder.AUTO, Decoder.ENCLOSED}
    assert len(FAMILIES) == len({family.name for family in FAMILIES})


def test_every_workload_has_its_program_and_its_settings() -> None:
    assert set(PROGRAMS) == set(ALLOWED) == set(Workload) - {Workload.SCRIPT}


@pytest.mark.parametrize("kind", [*EventKind, TEST])
def test_every_event_has_a_subject_line(kind: str) -> None:
    assert subject_line(kind, {"name": "door", "rule": "queue"}, "en")


@pytest.mark.parametrize("kind", SinkKind)
def test_a_sinks_address_shows_its_kind(kind: SinkKind) -> None:
    shown = {kind_of(f"{scheme}://host/a") for scheme in SCHEMES[kind]} or {kind_of("datasets/door")}
    assert shown == {SinkKind.MQTT if kind is SinkKind.HOME_ASSISTANT else kind}


@pytest.mark.parametrize("scheme", SourceKind)
def test_the_command_line_knows_every_source_of_models(scheme: SourceKind) -> None:
    forms = [form for form in FORMS.replace(" or ", ", ").split(", ") if form.startswith(f"{scheme}:")]
    assert forms and all(map(is_source, forms))


def test_every_kind_of_sink_has_a_sender(settings: Settings) -> None:
    container = assemble(settings)
    try:
        assert set(container.results.sinks.senders) == set(SinkKind)
    finally:
        container.close()
