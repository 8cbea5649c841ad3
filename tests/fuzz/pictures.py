"""Pictures that are not what their headers say."""

from __future__ import annotations

import struct
import zlib
from random import Random

from tests.fuzz import corpus, damage

SIDES = (0, 1, 16, 65535, 2**31 - 1, 2**32 - 1, 30000)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png_header(rng: Random) -> bytes:
    """Right checksums, wrong facts: sizes, depths, colour types, interlacing."""
    header = struct.pack(
        ">IIBBBBB",
        rng.choice(SIDES),
        rng.choice(SIDES),
        rng.choice((1, 2, 4, 8, 16, 3, 255)),
        rng.choice((0, 2, 3, 4, 6, 7)),
        rng.choice((0, 1)),
        rng.choice((0, 1)),
        rng.choice((0, 1, 2)),
    )
    pixels = zlib.compress(bytes(rng.choice((10, 1000, 5_000_000))))
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + _chunk(b"IDAT", pixels) + _chunk(b"IEND", b"")


def png_chunks(rng: Random) -> bytes:
    """Strange chunks in a good picture: text that unpacks to megabytes, profiles, palettes, twice the header."""
    good = corpus.good_pictures()[0][1]
    kind = rng.choice((b"zTXt", b"iCCP", b"PLTE", b"tRNS", b"IHDR", b"acTL", b"eXIf", b"iTXt", b"abcd"))
    text = b"k\x00\x00" + zlib.compress(bytes(rng.choice((10, 70_000_000))))
    return good[:33] + _chunk(kind, rng.choice((text, b"", rng.randbytes(20)))) + good[33:]


def jpeg_size(rng: Random) -> bytes:
    """The frame header of a real photograph says another size."""
    data = bytearray(rng.choice(corpus.real_pictures()))
    at = max(data.find(b"\xff\xc0"), data.find(b"\xff\xc2"))
    if at >= 0:
        struct.pack_into(">HH", data, at + 5, rng.choice((0, 1, 65535)), rng.choice((0, 1, 65535)))
    return bytes(data)


def other_formats(rng: Random) -> bytes:
    size = rng.choice(((2**31 - 1, 2**31 - 1), (-16, 16), (0, 0), (16, -16), (60000, 60000)))
    bmp = b"BM" + struct.pack("<IHHI", 100, 0, 0, 54) + struct.pack("<IiiHHIIiiII", 40, *size, 1, 24, 0, 0, 1, 1, 0, 0)
    gif = b"GIF89a" + struct.pack("<HH", 65535, 65535) + b"\x80\x00\x00" + rng.randbytes(20)
    ppm = f"P6 {rng.choice(SIDES)} {rng.choice(SIDES)} {rng.choice((0, 255, 65536))}\n".encode() + bytes(50)
    tiff = b"II*\x00\x08\x00\x00\x00" + struct.pack("<H", 60000) + rng.randbytes(60)
    webp = b"RIFF" + struct.pack("<I", 2**31) + b"WEBPVP8L" + rng.randbytes(30)
    return rng.choice((bmp, gif, ppm, tiff, webp)) + rng.randbytes(30)


def harmed(rng: Random) -> bytes:
    source = corpus.real_pictures() if rng.random() < 0.3 else [data for _, data in corpus.good_pictures()]
    return damage.damaged(rng, rng.choice(source))[1]


KINDS = (png_header, png_chunks, jpeg_size, other_formats, harmed, harmed)
