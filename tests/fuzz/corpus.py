"""What the fuzz mutates: small good inputs that pass, and real files. A case is one submission."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from tests.harness.api import npy, npz, png, pngs, small_model, two_input_model, vector_model, zipped
from tests.harness.paths import REPOSITORY

DIGITS = REPOSITORY / "ops/samples/digits"
REAL = REPOSITORY.parent / "shared/data"
REAL_BYTES_MAX = 400_000
"""Larger files would only be hashed and copied longer."""


@dataclass(frozen=True)
class Case:
    """One submission. kind: the mutation's name. images: file name and bytes of each part."""

    kind: str
    model: bytes
    images: Sequence[tuple[str, bytes]]
    options: dict[str, Any] = field(default_factory=dict)

    def save(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        (folder / "model.onnx").write_bytes(self.model)
        for number, (name, data) in enumerate(self.images):
            (folder / f"images-{number}").write_bytes(data)
            (folder / f"images-{number}.name").write_text(name, "utf-8", "surrogatepass")
        (folder / "case.json").write_text(json.dumps({"kind": self.kind, "options": self.options}))


@cache
def good_pictures() -> tuple[tuple[str, bytes], ...]:
    return tuple(pngs(3))


@cache
def good_zip() -> bytes:
    return zipped(good_pictures())


@cache
def pictures_model() -> bytes:
    return small_model()


@cache
def numbers_model() -> bytes:
    return vector_model()


@cache
def pair() -> tuple[bytes, bytes]:
    """A model of two inputs and an .npz that fits it."""
    rng = np.random.default_rng(1)
    left, right = rng.normal(size=(4, 6)).astype(np.float32), rng.normal(size=(4, 4)).astype(np.float32)
    return two_input_model(), npz(left=left, right=right)


@cache
def numbers() -> bytes:
    return npy(np.random.default_rng(2).normal(size=(6, 6)).astype(np.float32))


@cache
def digits() -> tuple[bytes, bytes]:
    return (DIGITS / "digits.onnx").read_bytes(), (DIGITS / "reference.zip").read_bytes()


@cache
def real_models() -> tuple[bytes, ...]:
    """Small real models; the bundled one alone where the others are absent."""
    models = sorted((REAL / "models").glob("*.onnx")) if REAL.exists() else []
    return (digits()[0], *(path.read_bytes() for path in models if path.stat().st_size <= REAL_BYTES_MAX))


@cache
def real_pictures() -> tuple[bytes, ...]:
    pictures = sorted((REAL / "images").glob("*.jpg")) if REAL.exists() else []
    return (png(7), *(path.read_bytes() for path in pictures if path.stat().st_size <= REAL_BYTES_MAX))
