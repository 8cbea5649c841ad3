"""Reads the metadata of a Kneron NEF file: chip, models, checksums, versions. Pure standard library.

Layout: Kneron PLUS 2.3.0 source and bytes of KL520 and KL720 files. The chip numbers of 530, 630 and 730 and the
KNE inside a 730 file are known from source only. An encrypted or damaged payload is reported, never decoded.
"""

from __future__ import annotations

import mmap
import struct
import zlib
from pathlib import Path
from typing import TypedDict

from app.conversion.toolchains.kneron.flatbuffer import BeyondEnd, Buffer, Malformed, Table, unpack
from app.kit.errors import BadInput
from app.kit.text.json_values import JsonObject

MAGIC = 19840308
SIZE_LIMIT = 2 << 30
TARGETS = ("520", "720", "530", "730", "630", "540")
SHIFTED_SINCE = (2, 2, 1)
"""From this schema on, 0 means "default", and every target number is one higher."""
ENCRYPTION = ("none", "custom key", "KN number")
LEGACY_SETUP = 0x8EB5A462
FW_PARTS = ("input", "output", "buffer", "command", "weight", "setup")
FW_FIELDS = ("id", "version", *(f"{part}_{what}" for part in FW_PARTS for what in ("address", "size_bytes")))
FW_RECORD = 4 * len(FW_FIELDS)


class NotNef(BadInput, code="NEF_UNREADABLE"):
    """The bytes are not a Kneron NEF file."""


class TruncatedNef(NotNef, code="NEF_TRUNCATED"):
    """The file starts as a NEF and refers to bytes beyond its end."""


class NefHeader(TypedDict):
    platform: str
    target: int
    chip: str | None
    """None for "default" or an unknown number."""
    kn_number: int
    encryption_mode: int
    encryption: str
    compiler_version: str
    toolchain_version: str
    schema_version: str
    uuid: int


class NefFacts(NefHeader):
    size_bytes: int
    crc: str
    """The stored checksum of the file, in hex."""
    crc_ok: bool
    header_crc_ok: bool
    """Whether the checksum of the models is that of the header."""
    models: list[JsonObject]
    """id, name, version; from fw_info also the sizes of its parts, and the input's size of KL520."""
    fw_info: JsonObject | None
    kne: bool
    """Whether it holds a KNE, as files for KL730 do."""
    model_data_bytes: int


def probe(path: Path) -> NefFacts:
    """Returns the metadata. A NEF with wrong checksums is described with crc_ok False.

    Raises:
        NotNef: It is not a NEF.
        TruncatedNef: It is only the beginning of one.
    """
    size = path.stat().st_size
    if not 16 <= size <= SIZE_LIMIT:
        raise NotNef(f"a file of {size} bytes is no NEF", hint="Choose a .nef file that the Kneron toolchain wrote.")
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        view = memoryview(mapped)
        try:
            return describe(view)
        finally:
            view.release()


def describe(data: Buffer) -> NefFacts:
    """Does the same as `probe` for bytes in memory."""
    with data[:-4] as body, data[-4:] as tail:
        try:
            return _describe(body, unpack(tail, "I", 0))
        except (Malformed, struct.error) as error:
            problem = str(error)  # the exception itself would keep views of the mapped file alive
            is_cut = isinstance(error, BeyondEnd)
        if is_cut and _has_header(body):
            raise TruncatedNef(
                f"this Kneron NEF file ends early: it has {len(data)} bytes, and its content goes on beyond them",
                hint="Copy or download it again and compare the file sizes.",
                detail={"size_bytes": len(data)},
            )
        raise NotNef(
            f"this is not a Kneron NEF file ({problem})", hint="Choose a .nef file that the Kneron toolchain wrote."
        )


def _describe(body: Buffer, stored: int) -> NefFacts:
    root = Table.root(body)
    if root.number(0, "I", MAGIC) != MAGIC:
        raise Malformed("the magic number is wrong")
    header, payload = root.table(1), root.table(3)
    if header is None or payload is None:
        raise Malformed("header or payload is missing")
    firmware, models = payload.octets(0), payload.octets(1)
    if not models:
        raise Malformed("the file holds no model data")
    facts = _read_header(header)
    named = [_read_model_info(table) for table in root.tables(2)]
    fw_info = _read_fw_info(firmware, models, is_520=facts["chip"] == "520") if firmware else None
    kne = None if fw_info else _read_kne(models)
    return {
        "size_bytes": len(body) + 4,
        "crc": f"{stored:#010x}",
        "crc_ok": stored == zlib.crc32(body),
        **facts,
        "header_crc_ok": header.number(2, "I") == zlib.crc32(models),
        "models": _merge(named, fw_info["models"] if fw_info else kne or []),
        "fw_info": {key: value for key, value in fw_info.items() if key != "models"} if fw_info else None,
        "kne": kne is not None,
        "model_data_bytes": len(models),
    }


def _has_header(body: Buffer) -> bool:
    """Returns whether it begins as a NEF."""
    try:
        header = Table.root(body).table(1)
        return header is not None and bool(_read_header(header)["platform"])
    except (Malformed, struct.error):
        return False


def _read_header(header: Table) -> NefHeader:
    target, mode = header.number(1, "i"), header.number(4, "i")
    if not 0 <= target <= len(TARGETS) or not 0 <= mode < len(ENCRYPTION):
        raise Malformed(f"target {target} and encryption mode {mode} are unknown")
    schema_table = header.table(7)
    schema = (0, 0, 0) if schema_table is None else tuple(schema_table.number(i, "I") for i in range(3))
    return {
        "platform": header.text(0),
        "target": target,
        "chip": chip_of(target, schema),
        "kn_number": header.number(3, "I"),
        "encryption_mode": mode,
        "encryption": ENCRYPTION[mode],
        "compiler_version": header.text(5),
        "toolchain_version": header.text(6),
        "schema_version": ".".join(map(str, schema)),
        "uuid": header.number(8, "I"),
    }


def chip_of(target: int, schema: tuple[int, ...]) -> str | None:
    """Returns the chip name of a target number; None for "default" or unknown numbers."""
    index = target - 1 if schema >= SHIFTED_SINCE else target
    return TARGETS[index] if 0 <= index < len(TARGETS) else None


def _read_model_info(table: Table) -> JsonObject:
    return {"id": table.number(1, "i"), "name": table.text(0), "version": table.text(2)}


def _read_fw_info(firmware: Buffer, models: Buffer, *, is_520: bool) -> JsonObject | None:
    """Reads the fw_info words (all u32): n, n records, dram_end, total_size, then in newer files CRC words. None:
    another form."""
    if len(firmware) < 12 + FW_RECORD:
        return None
    count = unpack(firmware, "I", 0)
    end = 4 + count * FW_RECORD
    if not 0 < count <= 1024 or end + 8 > len(firmware):
        return None
    records = [dict(zip(FW_FIELDS, _read_words(firmware, 4 + i * FW_RECORD), strict=True)) for i in range(count)]
    total = unpack(firmware, "I", end + 4)
    info: JsonObject = {"dram_end": unpack(firmware, "I", end), "total_bytes": total}
    info["total_ok"] = total == len(models)
    checks_at = end + 8
    if len(firmware) >= checks_at + 4 + 4 * count + 4:
        last = checks_at + 4 + 4 * count
        info["models_crc_ok"] = unpack(firmware, "I", checks_at) == zlib.crc32(models)
        info["crc_ok"] = unpack(firmware, "I", last) == zlib.crc32(firmware[:last])
        for i, record in enumerate(records):
            block = _read_block(models, records[0]["command_address"], record)
            record["crc_ok"] = unpack(firmware, "I", checks_at + 4 + 4 * i) == zlib.crc32(block)
    info["models"] = [
        _describe_model(record, records[0]["command_address"], models, is_520=is_520) for record in records
    ]
    return info


def _read_words(firmware: Buffer, start: int) -> tuple[int, ...]:
    return struct.unpack_from(f"<{len(FW_FIELDS)}I", firmware, start)


def _read_block(models: Buffer, base: int, record: dict[str, int]) -> Buffer:
    """Returns the bytes of one model: from its command to the end of its setup, rounded up to 16 bytes and clipped."""
    start = max(record["command_address"] - base, 0)
    end = record["setup_address"] + record["setup_size_bytes"] - base
    return models[start : start + max(0, -(-(end - start) // 16) * 16)]


def _describe_model(record: JsonObject, base: int, models: Buffer, *, is_520: bool) -> JsonObject:
    start = record["setup_address"] - base
    sizes = {key: value for key, value in record.items() if not key.endswith("_address")}
    if not is_520 or start < 0 or record["setup_size_bytes"] < 72 or start + 72 > len(models):
        return sizes
    words = struct.unpack_from("<18I", models, start)
    if words[0] == LEGACY_SETUP and max(words[7:10]) <= 1 << 16:  # a KL720 setup has the same magic, in other places
        sizes["setup_520"] = {"rows": words[7], "columns": words[8], "channels": words[9], "outputs": words[17]}
    return sizes


def _read_kne(models: Buffer) -> list[JsonObject] | None:
    """Returns the model ids of the KNE inside a 730 file; None if the payload is something else, or encrypted."""
    try:
        root = Table.root(models)
        if root.number(0, "I") != MAGIC:
            return None
        headers = [table.table(0) for table in root.tables(2)]
        return [{"id": header.number(0, "I")} for header in headers if header is not None]
    except Malformed:
        return None


def _merge(named: list[JsonObject], models: list[JsonObject]) -> list[JsonObject]:
    """Returns an entry per model: names from model_info and sizes from fw_info, joined by id."""
    names = {entry["id"]: entry for entry in named}
    merged = []
    for entry in models:
        name = names.pop(entry["id"], {})
        version = name.get("version") or str(entry.get("version", ""))
        merged.append({**entry, "name": name.get("name", ""), "version": version})
    return merged + list(names.values())
