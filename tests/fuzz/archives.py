"""Zips that lie: about sizes, counts, places, kinds; and arrays that do."""

from __future__ import annotations

import io
import stat
import struct
import zipfile
from collections.abc import Callable
from random import Random

import numpy as np

from tests.fuzz import corpus
from tests.harness.api import npy, zipped

LOCAL, CENTRAL, END = b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06"
Trick = Callable[[Random], bytes]
NAMES = (
    "../../evil.png",
    "/etc/evil.png",
    "a\\..\\b.png",
    "C:evil.png",
    "CON.png",
    "con",
    ".png",
    "-rf.png",
    "a" * 300,
    "ü/日本.png",
    "\u202egnp.png",
    "a\nb.png",
    "a/./b.png",
    "a//b.png",
    "//host/x.png",
    "\x7f.png",
    " .png",
    "..png",
)


def _zip(entries: list[tuple[zipfile.ZipInfo | str, bytes]], kind: int = zipfile.ZIP_DEFLATED) -> bytearray:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", kind) as archive:
        for name, data in entries:
            archive.writestr(name, data, kind)
    return bytearray(file.getvalue())


def _all(data: bytes, mark: bytes) -> list[int]:
    places, at = [], data.find(mark)
    while at >= 0:
        places.append(at)
        at = data.find(mark, at + 1)
    return places


def bomb(rng: Random) -> bytes:
    return bytes(_zip([("bomb.png", bytes(rng.choice((11_000_000, 60_000_000))))]))


def picture_bomb(rng: Random) -> bytes:
    """Real pictures of nothing: small packed, large decoded."""
    from PIL import Image

    side = rng.choice((3000, 6000))
    file = io.BytesIO()
    Image.new("1", (side, side)).save(file, "PNG")
    return bytes(_zip([(f"{n}.png", file.getvalue()) for n in range(rng.choice((1, 3)))]))


def overlapping(rng: Random) -> bytes:
    """Every entry of the table points at the first one's bytes."""
    data = _zip([(f"{n}.png", corpus.good_pictures()[0][1]) for n in range(rng.choice((2, 40)))])
    for at in _all(data, CENTRAL):
        struct.pack_into("<I", data, at + 42, 0)
    return bytes(data)


def counts(rng: Random) -> bytes:
    data = bytearray(corpus.good_zip())
    at = data.rfind(END)
    field = rng.choice((8, 10))
    struct.pack_into("<H", data, at + field, rng.choice((0, 1, 60000, 65535)))
    return bytes(data)


def many_entries(rng: Random) -> bytes:
    count = rng.choice((6000, 51000))
    return bytes(_zip([(f"{n}.{rng.choice(('png', 'txt'))}", b"") for n in range(count)], zipfile.ZIP_STORED))


def special(rng: Random) -> bytes:
    entry = zipfile.ZipInfo("special.png")
    entry.create_system = 3
    kind = rng.choice((stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR, stat.S_IFSOCK, stat.S_IFDIR))
    entry.external_attr = (kind | 0o777) << 16
    return bytes(_zip([(entry, b"/etc/passwd"), ("a.png", corpus.good_pictures()[0][1])]))


def flags(rng: Random) -> bytes:
    """Encrypted, strongly encrypted, patched, masked: any of the sixteen flags."""
    data = bytearray(corpus.good_zip())
    bit = 1 << rng.randrange(16)
    for mark, offset in ((LOCAL, 6), (CENTRAL, 8)):
        for at in _all(data, mark):
            struct.pack_into("<H", data, at + offset, struct.unpack_from("<H", data, at + offset)[0] ^ bit)
    return bytes(data)


def methods(rng: Random) -> bytes:
    data = bytearray(corpus.good_zip())
    kind = rng.choice((1, 6, 9, 12, 14, 93, 95, 98, 99, 65535))
    for mark, offset in ((LOCAL, 8), (CENTRAL, 10)):
        for at in _all(data, mark):
            struct.pack_into("<H", data, at + offset, kind)
    return bytes(data)


def sizes(rng: Random) -> bytes:
    """The table says other sizes, offsets or checksums than there are; all ones means: see the zip64 record."""
    data = bytearray(corpus.good_zip())
    at = rng.choice(_all(data, CENTRAL))
    value = rng.choice((0, 1, 0x7FFFFFFF, 0xFFFFFFFF, 0xFFFFFFFE))
    struct.pack_into("<I", data, at + rng.choice((16, 20, 24, 42)), value)
    return bytes(data)


def zip64(rng: Random) -> bytes:
    data = bytes(corpus.good_zip())
    at = data.rfind(END)
    size, offset = struct.unpack_from("<II", data, at + 12)
    count = rng.choice((3, 2**32, 2**63 - 1))
    record = struct.pack(
        "<4sQHHIIQQQQ", b"PK\x06\x06", 44, 45, 45, 0, 0, count, count, rng.choice((size, 2**62)), offset
    )
    locator = struct.pack("<4sIQI", b"PK\x06\x07", 0, rng.choice((at, 0, 2**62)), 1)
    end = struct.pack("<4sHHHHIIH", END, 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0)
    return data[:at] + record + locator + end


def extra_fields(rng: Random) -> bytes:
    entry = zipfile.ZipInfo("a.png")
    entry.extra = struct.pack("<HH", rng.choice((1, 0x7075, 0x9901, 0xFFFF)), rng.choice((0, 8, 4))) + rng.randbytes(8)
    return bytes(_zip([(entry, corpus.good_pictures()[0][1])]))


def names(rng: Random) -> bytes:
    return bytes(_zip([(rng.choice(NAMES), corpus.good_pictures()[0][1]), ("good.png", corpus.good_pictures()[1][1])]))


def raw_names(rng: Random) -> bytes:
    """Bytes in a name that zipfile would not write: NUL, no UTF-8, a slash more."""
    name = rng.choice((b"\x00.png", b"\xff\xfe.png", b"../.png", b"/0.png", b"\\.png"))[:5]
    return bytes(corpus.good_zip()).replace(b"0.png", name.ljust(5, b"x")[:5])


def nested(rng: Random) -> bytes:
    inner = corpus.good_zip()
    for _ in range(rng.choice((1, 5))):
        inner = bytes(_zip([(rng.choice(("inner.zip", "inner.npz", "inner.png")), inner)]))
    return inner


def padded(rng: Random) -> bytes:
    """Bytes before, after, or a comment that holds another end record."""
    data = corpus.good_zip()
    junk = rng.randbytes(50)
    return rng.choice((junk + data, data + junk, data + data, data[:-2] + struct.pack("<H", 22) + data[-22:]))


def arrays(rng: Random) -> bytes:
    """An .npy whose header promises what the bytes do not keep."""
    shape = rng.choice(
        ("(6, 6)", "(99999999999,)", "(-1, 6)", "()", "(6,)", "(0, 6)", "(6, 6, 1, 1)", "6", "(2**99, 6)")
    )
    kind = rng.choice(
        ("<f4", "<f8", ">f4", "|O", "<U9999999", "|V8", "<c16", "[('a', '<f4')]", "<f2", "?", "<M8[s]", "x")
    )
    head = f"{{'descr': '{kind}', 'fortran_order': {rng.choice(('False', 'True', '1', 'None'))}, 'shape': {shape}, }}"
    if rng.random() < 0.2:
        head = rng.choice(("{}", "__import__('os').system('true')", "(" * 3000, "{'descr'" + " " * 9000, head * 3))
    version = rng.choice((b"\x01\x00", b"\x02\x00", b"\x03\x00", b"\x09\x09"))
    size = struct.pack("<H" if version == b"\x01\x00" else "<I", min(len(head), 65535))
    return b"\x93NUMPY" + version + size + head.encode() + bytes(rng.choice((0, 100, 144, 288)))


def values(rng: Random) -> bytes:
    value = rng.choice((np.nan, np.inf, -np.inf, 3e38, 1e-45, 0.0))
    return npy(np.full((4, 6), value, np.float32))


def packed_arrays(rng: Random) -> bytes:
    return zipped([(f"{n}.{rng.choice(('npy', 'npz', 'png', 'NPY'))}", arrays(rng)) for n in range(3)])


TRICKS: tuple[Trick, ...] = (
    bomb,
    picture_bomb,
    overlapping,
    counts,
    special,
    flags,
    methods,
    sizes,
    sizes,
    zip64,
    extra_fields,
    names,
    raw_names,
    nested,
    padded,
)
RARE: tuple[Trick, ...] = (many_entries,)
ARRAYS: tuple[Trick, ...] = (arrays, arrays, values, packed_arrays)
