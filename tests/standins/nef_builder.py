"""Packs NEF files by hand, from the same facts the probe reads them by: for tests and the stand-in toolchain.

A FlatBuffer of root {magic, header, model_info, model_bin} and a CRC32 of it in four bytes more.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, field
from typing import Any

TARGETS = ("520", "720", "530", "730", "630", "540")
LEGACY_SETUP = 0x8EB5A462
MAGIC = 19840308
BASE = 0x60000000


@dataclass(frozen=True)
class Model:
    id: int = 32768
    version: int = 1
    name: str = "model"
    command: bytes = b"\x01\x02\x03\x04" * 8
    weight: bytes = b"\x05\x06\x07\x08" * 33
    rows: int = 240
    columns: int = 320
    channels: int = 3

    @property
    def setup(self) -> bytes:
        words = [0] * 24
        words[0], words[7], words[8], words[9] = LEGACY_SETUP, self.rows, self.columns, self.channels
        words[16], words[17] = 8, 1
        return struct.pack("<24I", *words)


@dataclass(frozen=True)
class Nef:
    chip: str = "520"
    models: tuple[Model, ...] = (Model(),)
    schema: tuple[int, int, int] = (0, 0, 1)
    toolchain: str = "kneron/toolchain:v0.33.1\n"
    compiler: str = ""
    encryption: int = 0
    kn_number: int = 0
    has_model_info: bool = True
    has_magic: bool = False
    changes: dict[str, Any] = field(default_factory=dict)
    """Wrong values on purpose: target, crc, header_crc, all_models, fw_info, magic."""


def build(nef: Nef | None = None) -> bytes:
    nef = nef or Nef()
    change = nef.changes
    fw_info, all_models = _payload(nef)
    fw_info, all_models = change.get("fw_info", fw_info), change.get("all_models", all_models)
    shift = 1 if nef.schema >= (2, 2, 1) else 0
    target = change.get("target", TARGETS.index(nef.chip) + shift)
    header = {
        0: ("text", "kneron"),
        1: ("i32", target),
        2: ("u32", change.get("header_crc", zlib.crc32(all_models))),
        3: ("u32", nef.kn_number),
        4: ("i32", nef.encryption),
        5: ("text", nef.compiler),
        6: ("text", nef.toolchain),
        7: ("table", {i: ("u32", number) for i, number in enumerate(nef.schema)}),
        8: ("u32", 0x1234),
    }
    infos = [{0: ("text", m.name), 1: ("i32", m.id), 2: ("text", str(m.version))} for m in nef.models]
    root: dict[int, tuple[str, Any]] = {
        1: ("table", header),
        2: ("tables", infos if nef.has_model_info else []),
        3: ("table", {0: ("bytes", fw_info), 1: ("bytes", all_models)}),
    }
    if nef.has_magic or "magic" in change:
        root[0] = ("u32", change.get("magic", MAGIC))
    body = pack(root)
    return body + struct.pack("<I", change.get("crc", zlib.crc32(body)))


def build_kne(ids: list[int], *, chip: str = "730") -> bytes:
    """A NEF as for 730: no fw_info, the payload is a KNE FlatBuffer."""
    models = [{0: ("table", {0: ("u32", id)})} for id in ids]
    kne = pack({0: ("u32", MAGIC), 1: ("table", {0: ("i32", 1)}), 2: ("tables", models)})
    named = tuple(Model(id=id, name=f"m{id}") for id in ids)
    return build(Nef(chip=chip, models=named, schema=(2, 2, 1), changes={"fw_info": b"", "all_models": kne}))


def _payload(nef: Nef) -> tuple[bytes, bytes]:
    """fw_info and all_models: command, weight and setup of each model, each model padded to 16 bytes."""
    blob, records, blocks = b"", [], []
    for model in nef.models:
        start, parts, places = len(blob), (model.command, model.weight, model.setup), []
        for part in parts:
            places += [BASE + len(blob), len(part)]
            blob += part
        blob += b"\0" * (-len(blob) % 16)
        blocks.append(blob[start:])
        records.append(struct.pack("<14I", model.id, model.version, 0x1000, 64, 0x2000, 64, 0x3000, 64, *places))
    words = struct.pack("<I", len(records)) + b"".join(records)
    words += struct.pack("<3I", BASE + len(blob), len(blob), zlib.crc32(blob))
    words += b"".join(struct.pack("<I", zlib.crc32(block)) for block in blocks)
    return words + struct.pack("<I", zlib.crc32(words)), blob


# --- a FlatBuffer writer for tables of 4-byte fields -----------------------------------------------
def pack(root: dict[int, tuple[str, Any]]) -> bytes:
    out = bytearray(4)
    struct.pack_into("<I", out, 0, _table(out, root))
    return bytes(out)


def _table(out: bytearray, fields: dict[int, tuple[str, Any]]) -> int:
    count = max(fields, default=-1) + 1
    _align(out)
    vtable = len(out)
    slots = {index: 4 + 4 * place for place, index in enumerate(sorted(fields))}
    out += struct.pack("<HH", 4 + 2 * count, 4 + 4 * len(fields))
    out += b"".join(struct.pack("<H", slots.get(index, 0)) for index in range(count))
    _align(out)
    table = len(out)
    out += struct.pack("<i", table - vtable) + bytes(4 * len(fields))
    for index, (kind, value) in fields.items():
        slot = table + slots[index]
        if kind in ("u32", "i32"):
            struct.pack_into("<I" if kind == "u32" else "<i", out, slot, value)
        else:
            struct.pack_into("<I", out, slot, _child(out, kind, value) - slot)
    return table


def _child(out: bytearray, kind: str, value: Any) -> int:
    if kind == "table":
        return _table(out, value)
    _align(out)
    position = len(out)
    if kind == "tables":
        out += struct.pack("<I", len(value)) + bytes(4 * len(value))
        for index, fields in enumerate(value):
            slot = position + 4 + 4 * index
            struct.pack_into("<I", out, slot, _table(out, fields) - slot)
    else:
        data = value.encode() if kind == "text" else bytes(value)
        out += struct.pack("<I", len(data)) + data + (b"\0" if kind == "text" else b"")
    return position


def _align(out: bytearray) -> None:
    out += b"\0" * (-len(out) % 4)
