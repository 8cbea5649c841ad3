"""Damage that needs no knowledge of a format: bits, lengths, order, ends."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

LENGTHS = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)


def flip_bits(rng: Random, data: bytes) -> bytes:
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8, 64))):
        out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)
    return bytes(out)


def truncate(rng: Random, data: bytes) -> bytes:
    return data[: rng.randrange(len(data))]


def repeat_chunk(rng: Random, data: bytes) -> bytes:
    start = rng.randrange(len(data))
    end = min(len(data), start + rng.randrange(1, 200))
    return data[:end] + data[start:end] * rng.choice((1, 2, 50)) + data[end:]


def drop_chunk(rng: Random, data: bytes) -> bytes:
    start = rng.randrange(len(data))
    return data[:start] + data[start + rng.randrange(1, 100) :]


def edit_length(rng: Random, data: bytes) -> bytes:
    """Some two or four bytes, wherever they are, become a number that lengths trip over."""
    size = rng.choice((2, 4))
    order = rng.choice(("little", "big"))
    at = rng.randrange(max(1, len(data) - size))
    value = rng.choice(LENGTHS) & ((1 << 8 * size) - 1)
    return data[:at] + value.to_bytes(size, order) + data[at + size :]  # type: ignore[arg-type]


def overwrite(rng: Random, data: bytes) -> bytes:
    at = rng.randrange(len(data))
    fill = rng.choice((b"\x00", b"\xff", b"\x80", rng.randbytes(1))) * rng.randrange(1, 32)
    return data[:at] + fill + data[at + len(fill) :]


def move_chunk(rng: Random, data: bytes) -> bytes:
    a, b, c = sorted(rng.randrange(len(data)) for _ in range(3))
    return data[:a] + data[b:c] + data[a:b] + data[c:]


def concatenate(rng: Random, data: bytes) -> bytes:
    return data * rng.choice((2, 3)) if rng.random() < 0.5 else data + rng.randbytes(rng.randrange(1, 100))


Damage = Callable[[Random, bytes], bytes]
KINDS: tuple[Damage, ...] = (
    flip_bits,
    truncate,
    repeat_chunk,
    drop_chunk,
    edit_length,
    overwrite,
    move_chunk,
    concatenate,
)


def damaged(rng: Random, data: bytes, kind: Damage | None = None) -> tuple[str, bytes]:
    """The name of the damage and the damaged bytes. kind: otherwise one by lot."""
    kind = kind or rng.choice(KINDS)
    return kind.__name__, kind(rng, data)
