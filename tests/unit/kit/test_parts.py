"""A name that a user gave is shown, and never a path: whatever it is, one file comes of it, inside one folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from app.conversion.intake.archive import extract, flat_name
from app.kit.objects.base import BadKey, check_key
from app.kit.parts import plain_name
from app.kit.zipping import zip_stream
from tests.harness.api import png

PIECES = st.sampled_from(
    ["..", ".", "/", "\\", "C:", "\x00", "\n", "\r\n", "etc", "passwd", "~", "con", "\u202e", "\ud800", "ü", "模",
     "%2e%2e%2f", "${HOME}", "$(id)", "`id`", ";", "'", '"', "<svg>", " ", "-rf", "x" * 400, ".png", ".zip"]
)  # fmt: skip
PICTURE = png(1)
NAMES = st.lists(PIECES, max_size=8).map("".join) | st.text(max_size=300)


@given(NAMES)
@example("../../etc/passwd")
@example("/etc/passwd")
@example("C:\\Windows\\system32\\evil.png")
@example("a\x00.png")
@example("..")
@example("x" * 5000)
def test_an_uploaded_name_has_no_folders_and_no_control_characters(name: str) -> None:
    plain = plain_name(name)
    assert plain and len(plain) <= 150 and plain.isprintable()
    assert not set(plain) & set("/\\\x00\r\n")


@given(st.lists(NAMES, min_size=1, max_size=4))
@settings(max_examples=60, deadline=None)
def test_whatever_pictures_are_called_their_files_lie_flat_in_one_folder(
    tmp_path_factory: pytest.TempPathFactory, names: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("names")
    members = {f"{index}{plain_name(name)}.png": PICTURE for index, name in enumerate(names)}
    packed = b"".join(zip_stream((name, iter([data])) for name, data in members.items()))
    (folder / "up.zip").write_bytes(packed)
    unpacked = extract(folder / "up.zip", folder / "in", max_files=10, max_bytes=1 << 20)
    assert {path.name for path in folder.iterdir()} == {"in", "up.zip"}
    assert sorted(path.name for path in (folder / "in").iterdir()) == sorted(unpacked.files)
    assert all((folder / "in" / name).is_file() for name in unpacked.files) and len(unpacked.files) == len(names)


@given(NAMES)
def test_a_flat_name_stays_where_it_is_put(name: str) -> None:
    flat = flat_name(name.encode("utf-8", "ignore").decode() + ".png")
    path = Path("/folder") / flat
    assert path.parent == Path("/folder") and path.name == flat and not flat.startswith((".", "-"))
    assert len(flat.encode()) <= 255 and "\x00" not in flat


@given(NAMES)
def test_a_key_of_the_store_is_refused_or_stays_inside(name: str) -> None:
    try:
        key = check_key(f"uploads/{name}")
    except BadKey:
        return
    assert os.path.normpath(key) == key and not Path(key).is_absolute() and "\x00" not in key
