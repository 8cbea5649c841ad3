"""What the form of the page Archive asks the index for."""

from __future__ import annotations

from dataclasses import fields
from urllib.parse import parse_qsl, urlsplit

from app.conversion.archive_index import ArchiveFilter
from app.conversion.pages.archive import ArchiveListQuery
from tests.harness.paths import REPOSITORY

FORM = {
    "q": "face",
    "tag": "nightly",
    "model": "0a1b",
    "verdict": "PASSED",
    "snr": "10",
    "snr_max": "30.5",
    "since": "2026-11-01",
    "until": "2026-11-27",
    "kept": "false",
}


def criteria(**form: str) -> ArchiveFilter:
    return ArchiveListQuery.model_validate(form).criteria()


def test_every_condition_of_the_index_has_a_field() -> None:
    host, chip = criteria(target="host", **FORM), criteria(target="520", **FORM)
    assert (host.toolchain, host.platform) == ("host", None)
    assert (chip.toolchain, chip.platform) == (None, "520")
    unset = {f.name for f in fields(ArchiveFilter) if getattr(host, f.name) is None and getattr(chip, f.name) is None}
    assert unset == set()
    page = (REPOSITORY / "templates" / "conversion" / "archive.html").read_text()
    assert [name for name in (*FORM, "target") if f' name="{name}"' not in page] == []


def test_an_empty_form_filters_nothing() -> None:
    assert criteria(**dict.fromkeys((*FORM, "target"), "")) == ArchiveFilter()
    assert not ArchiveListQuery.model_validate({}).is_filtered


def test_links_to_other_pages_of_the_list_keep_the_conditions() -> None:
    params = ArchiveListQuery.model_validate({**FORM, "target": "520"})
    link = dict(parse_qsl(urlsplit(params.url()).query))
    assert ArchiveListQuery.model_validate(link) == params
