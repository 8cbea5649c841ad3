"""Whatever a user calls a file, a user's path or a job: it names one thing inside its folder, or is refused."""

from __future__ import annotations

import os
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from hypothesis import example
from hypothesis import strategies as st

from app.conversion.intake.archive import extract, flat_name
from app.homes import names
from app.homes.errors import PathRefused
from app.homes.model import HomesOptions, removed_at, stamp_name
from app.homes.path_rules import FIELDS, resolve_allowed
from app.kit.objects.base import BadKey, check_key
from app.kit.objects.signed_urls import sign_url, verify
from app.kit.text.attachment import attachment
from app.kit.web.multipart import plain_name
from app.kit.web.zip_stream import zip_stream
from tests.harness.api import png
from tests.harness.timed_search import searched

pytestmark = pytest.mark.slow
SECONDS = 0.25
PIECES = st.sampled_from(
    [
        "..",
        ".",
        "/",
        "\\",
        "C:",
        "\x00",
        "\n",
        "\r\n",
        "etc",
        "passwd",
        "~",
        "con",
        "\u202e",
        "\ud800",
        "ü",
        "模",
        "%2e%2e%2f",
        "${HOME}",
        "$(id)",
        "`id`",
        ";",
        "'",
        '"',
        "<svg>",
        " ",
        "-rf",
        "x" * 400,
        ".png",
        ".zip",
    ]
)
PICTURE = png(1)
NAMES = st.lists(PIECES, max_size=8).map("".join) | st.text(max_size=300)


# --- files of submissions -------------------------------------------------------------------------
@searched(NAMES, seconds=SECONDS)
@example("x" * 5000)
def test_an_uploaded_name_has_no_folders_and_no_control_characters(name: str) -> None:
    plain = plain_name(name)
    assert plain and len(plain) <= 150 and plain.isprintable()
    assert not set(plain) & set("/\\\x00\r\n")


@searched(st.lists(NAMES, min_size=1, max_size=4), seconds=SECONDS)
def test_whatever_pictures_are_called_their_files_lie_flat_in_one_folder(names: list[str]) -> None:
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        members = {f"{index}{plain_name(name)}.png": PICTURE for index, name in enumerate(names)}
        packed = b"".join(zip_stream((name, iter([data])) for name, data in members.items()))
        (folder / "up.zip").write_bytes(packed)
        unpacked = extract(folder / "up.zip", folder / "in", max_files=10, max_bytes=1 << 20)
        assert {path.name for path in folder.iterdir()} == {"in", "up.zip"}
        assert sorted(path.name for path in (folder / "in").iterdir()) == sorted(unpacked.files)
        assert all((folder / "in" / name).is_file() for name in unpacked.files) and len(unpacked.files) == len(names)


@searched(NAMES, seconds=SECONDS)
def test_a_flat_name_stays_where_it_is_put(name: str) -> None:
    flat = flat_name(name.encode("utf-8", "ignore").decode() + ".png")
    path = Path("/folder") / flat
    assert path.parent == Path("/folder") and path.name == flat and not flat.startswith((".", "-"))
    assert len(flat.encode()) <= 255 and "\x00" not in flat


# --- the object store -----------------------------------------------------------------------------
@searched(NAMES, seconds=SECONDS)
def test_a_key_of_the_store_is_refused_or_stays_inside(name: str) -> None:
    try:
        key = check_key(f"uploads/{name}")
    except BadKey:
        return
    assert os.path.normpath(key) == key and not Path(key).is_absolute() and "\x00" not in key


@searched(
    st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1),
    st.text(st.characters(exclude_categories=["Cs"])),
    seconds=SECONDS,
)
def test_a_signed_url_carries_what_verify_needs(key: str, name: str) -> None:
    url = urlsplit(sign_url("http://mill:8000/", "a secret", "GET", key, 1000, download_name=name))
    query = {field: values[0] for field, values in parse_qs(url.query, keep_blank_values=True).items()}
    assert url.netloc == "mill:8000"
    assert query["method"] == "GET"
    verify(
        "a secret",
        "GET",
        unquote(url.path).removeprefix("/objects/"),
        query["expires"],
        query["signature"],
        0,
        download_name=query.get("name", ""),
    )


@searched(st.text(), seconds=SECONDS)
def test_an_attachment_is_one_clean_header_line(name: str) -> None:
    header = attachment(name)
    assert header.isascii()
    assert header.isprintable()
    assert header.count('"') == 2


# --- data homes -----------------------------------------------------------------------------------
FILE_NAMES = st.binary(min_size=1, max_size=40).filter(lambda b: b not in (b".", b"..") and not set(b) & {0, 0x2F})
TEXTS = st.text(st.sampled_from("ab./\\x2f０．‥\u202e\u200b\0 \n\ud800é資") | st.characters(), max_size=30)


@searched(FILE_NAMES, seconds=SECONDS)
def test_a_name_in_the_trash_fits_and_tells_when_it_was_removed(name: bytes) -> None:
    moment = datetime(2026, 11, 20, 12, 30, 15, 123456, tzinfo=UTC)
    for long in (os.fsdecode(name), os.fsdecode(name * 7)[-255:], "資" * 85):
        kept = stamp_name(long, moment)
        assert len(os.fsencode(kept)) <= 255
        assert removed_at(kept) == moment
        assert long.endswith(kept.split("-", 1)[1])


@searched(FILE_NAMES, seconds=SECONDS)
def test_every_name_a_disk_can_hold_has_a_text_that_leads_back_to_it(name: bytes) -> None:
    text = names.to_text(os.fsdecode(name))
    assert names.from_text(text) == [os.fsdecode(name)]
    text.encode()  # fits into JSON and a page


@searched(TEXTS, seconds=SECONDS)
def test_whatever_text_is_taken_as_a_path_names_something_below(text: str) -> None:
    try:
        taken = names.from_text(text)
    except PathRefused:
        return
    for name in taken:
        assert name not in ("", ".", "..")
        assert not set(name) & {"/", "\0"}
        assert len(os.fsencode(name)) <= 255
    assert os.path.normpath("/".join(taken)) == ("/".join(taken) or ".")


MINE = "/private/users/alice"
STEPS = st.sampled_from(
    [
        "/private",
        "/common",
        "/users",
        "/alice",
        "/bob",
        "/",
        ".",
        "..",
        "/..",
        "／",
        "．",
        "\\",
        "\0",
        "\u202e",
        "d",
        " ",
        "é",
    ]
)
PATHS = st.lists(STEPS | st.text(max_size=3), max_size=8).map("".join)
OWN_PATHS = st.lists(STEPS | st.text(max_size=3), max_size=6).map(lambda rest: f"{MINE}/{''.join(rest)}")


@searched(PATHS | OWN_PATHS, st.sampled_from(sorted(FIELDS)), seconds=2 * SECONDS)
def test_whatever_path_a_task_may_name_resolves_inside(text: str, field: str) -> None:
    try:
        place = resolve_allowed(HomesOptions(Path("/mnt/elsewhere")), FIELDS[field], "alice", field, text)
    except PathRefused as error:
        assert error.message.startswith(f"{field}: ")
        return
    bases = ["/private/common/"] + ([] if FIELDS[field].own is None else [f"{MINE}/"])
    resolved = os.path.normpath(text)
    assert resolved.startswith(tuple(bases))
    assert resolved == text.removesuffix("/") == f"/private/{place.base}/{place.below}"
