from __future__ import annotations

import contextlib
import struct
import zlib
from pathlib import Path

import pytest

from app.conversion.toolchains.kneron.nef import NotNef, TruncatedNef, chip_of, describe, probe
from app.kit.errors import BadInput
from tests.standins import nef_builder
from tests.standins.nef_builder import Model, Nef, build, build_kne

TWO = Nef(chip="720", models=(Model(version=0x8B28, name="a"), Model(id=32769, name="b", rows=48, columns=48)))


def read(data: bytes) -> dict:
    return describe(memoryview(data))


def test_a_520_file_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "models_520.nef"
    path.write_bytes(build(Nef()))
    description = probe(path)
    assert description["chip"] == "520" and description["target"] == 0
    assert description["crc_ok"] and description["header_crc_ok"]
    assert description["encryption_mode"] == 0 and description["encryption"] == "none"
    assert description["toolchain_version"] == "kneron/toolchain:v0.33.1"
    assert description["schema_version"] == "0.0.1"
    (model,) = description["models"]
    assert (model["id"], model["name"], model["version"], model["crc_ok"]) == (32768, "model", "1", True)
    assert model["setup_520"] == {"rows": 240, "columns": 320, "channels": 3, "outputs": 1}
    assert (
        description["fw_info"]["crc_ok"]
        and description["fw_info"]["models_crc_ok"]
        and description["fw_info"]["total_ok"]
    )


def test_every_model_of_a_file_is_named_with_its_id_and_decimal_version() -> None:
    description = read(build(TWO))
    assert description["chip"] == "720"
    assert [(m["id"], m["name"], m["version"], m["crc_ok"]) for m in description["models"]] == [
        (32768, "a", "35624", True),
        (32769, "b", "1", True),
    ]


def test_models_without_model_info_are_found_through_fw_info() -> None:
    (model,) = read(build(Nef(has_model_info=False)))["models"]
    assert (model["id"], model["name"], model["version"]) == (32768, "", "1")


@pytest.mark.parametrize("chip", ["720", "530", "630"])
def test_the_places_of_a_520_setup_are_not_read_in_files_of_other_chips(chip: str) -> None:
    (model,) = read(build(Nef(chip=chip)))["models"]
    assert "setup_520" not in model and model["command_size_bytes"] == 32


@pytest.mark.parametrize("share", [0.5, 0.75, 0.99])
@pytest.mark.parametrize("data", [build(Nef(chip="720")), build(Nef(models=(Model(weight=bytes(100_000)),)))])
def test_the_beginning_of_a_file_is_told_from_what_is_none(data: bytes, share: float) -> None:
    with pytest.raises(TruncatedNef, match=f"ends early: it has {int(len(data) * share)} bytes"):
        read(data[: int(len(data) * share)])


@pytest.mark.parametrize("chip", ["520", "720", "530", "730", "630"])
def test_the_chip_is_known_before_and_after_the_targets_were_shifted(chip: str) -> None:
    assert read(build(Nef(chip=chip, schema=(2, 2, 0))))["chip"] == chip
    assert read(build(Nef(chip=chip, schema=(2, 2, 1))))["chip"] == chip
    assert read(build(Nef(chip=chip, schema=(3, 0, 0))))["chip"] == chip


def test_target_zero_is_the_default_of_newer_files_and_names_no_chip() -> None:
    assert chip_of(0, (2, 2, 1)) is None
    assert chip_of(0, (2, 2, 0)) == "520"


def test_a_730_file_is_read_through_the_kne_inside() -> None:
    description = read(build_kne([32770, 32771]))
    assert description["chip"] == "730" and description["kne"] and description["fw_info"] is None
    assert [model["id"] for model in description["models"]] == [32770, 32771]


def test_an_encrypted_file_says_so() -> None:
    description = read(build(Nef(encryption=2, kn_number=0x1234, has_magic=True)))
    assert (description["encryption"], description["kn_number"]) == ("KN number", 0x1234)


def test_a_damaged_payload_fails_all_its_checksums() -> None:
    data = bytearray(build(Nef()))
    at = data.index(b"\x05\x06\x07\x08")
    data[at] ^= 0xFF
    description = read(bytes(data))
    assert not description["crc_ok"] and not description["header_crc_ok"]
    assert not description["fw_info"]["models_crc_ok"] and not description["models"][0]["crc_ok"]


def test_each_checksum_is_judged_by_itself() -> None:
    assert not read(build(Nef(changes={"crc": 5})))["crc_ok"]
    description = read(build(Nef(changes={"header_crc": 5})))
    assert description["crc_ok"] and not description["header_crc_ok"]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"short",
        b"\0" * 64,
        b"\xff" * 64,
        b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 12\n",
        b"PK\x03\x04" + bytes(200),
        build(Nef(changes={"magic": 1})),
        build(Nef(changes={"target": 99})),
        build(Nef(changes={"target": -1})),
        build(Nef(encryption=3)),
        build(Nef(changes={"all_models": b""})),
        nef_builder.pack({0: ("u32", 19840308)}) + b"\0\0\0\0",
    ],
    ids=["empty", "short", "zeros", "ones", "lfs", "zip", "magic", "target", "negative", "mode", "no-data", "bare"],
)
def test_anything_else_is_refused_as_no_nef(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "x.nef"
    path.write_bytes(data)
    with pytest.raises(NotNef) as caught:
        probe(path)
    assert isinstance(caught.value, BadInput) and caught.value.code == "NEF_UNREADABLE" and caught.value.hint


def test_a_probed_file_can_be_deleted_and_leaves_no_open_view(tmp_path: Path) -> None:
    for index, data in enumerate([build(Nef()), b"\xff" * 64]):
        path = tmp_path / str(index)
        path.write_bytes(data)
        with contextlib.suppress(NotNef):
            probe(path)
        path.unlink()


def test_the_builder_agrees_with_the_flatbuffers_library() -> None:
    flatbuffers = pytest.importorskip("flatbuffers")
    data = build(TWO)
    body = bytearray(data[:-4])
    table = flatbuffers.table.Table(body, struct.unpack_from("<I", body)[0])
    header = flatbuffers.table.Table(body, table.Indirect(table.Pos + table.Offset(6)))
    uint = flatbuffers.number_types.Uint32Flags
    assert header.String(header.Pos + header.Offset(16)).decode().strip() == "kneron/toolchain:v0.33.1"
    assert header.Get(uint, header.Pos + header.Offset(6)) == 1
    assert table.VectorLen(table.Offset(8)) == 2
    payload = flatbuffers.table.Table(body, table.Indirect(table.Pos + table.Offset(10)))
    start, size = payload.Vector(payload.Offset(6)), payload.VectorLen(payload.Offset(6))
    assert zlib.crc32(body[start : start + size]) == header.Get(uint, header.Pos + header.Offset(8))
