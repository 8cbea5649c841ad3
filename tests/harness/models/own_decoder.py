"""A package with decoders of one's own, as pip installs it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from app.inference.decoders.own import own_families
from app.inference.installed_decoders import decoder_entry_points

MODULE = "own_decoders_of_test"
CODE = """
import numpy as np
from app.inference.decoders.base import Detections, Detector
from app.inference.prediction import Decoder
from app.inference.preprocess_options import Preprocess


class Plates(Detector):
    name = Decoder("plates")
    preprocess = Preprocess(scale=1)
    usual_size = (64, 32)

    def usual_labels(self, ports):
        return ("plate",)

    def fits(self, ports, size):
        return len(ports) == 1 and ports[0].fits(1, 9, 7)

    def find(self, outputs, size, floor):
        (values,) = outputs.values()
        rows = values[0][values[0][:, 4] >= floor]
        return Detections(rows[:, :4], rows[:, 4], np.zeros(len(rows), np.intp))


class Faulty(Plates):
    name = Decoder("faulty")

    def usual_labels(self, ports):
        raise KeyError("labels")

    def fits(self, ports, size):
        return ports[0].shape[1] == 8 or [][1]

    def find(self, outputs, size, floor):
        raise ZeroDivisionError("a width of zero")


class Misnamed(Plates):
    name = Decoder("others")


class Bare(Detector):
    name = Decoder("bare")


class Stranger:
    name = Decoder("stranger")
"""
POINTS = {
    "plates": "Plates",
    "faulty": "Faulty",
    "misnamed": "Misnamed",
    "bare": "Bare",
    "stranger": "Stranger",
    "gone": "Gone",
    "yolox": "Plates",
    "Not A Name": "Plates",
}


@contextmanager
def own_decoders(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Installs `plates` and `faulty`, and others that are left out."""
    about = folder / "own_decoders-1.0.dist-info"
    about.mkdir()
    (folder / f"{MODULE}.py").write_text(CODE)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: own-decoders\nVersion: 1.0\n")
    points = "".join(f"{name} = {MODULE}:{each}\n" for name, each in POINTS.items())
    (about / "entry_points.txt").write_text(f"[modelmill.decoders]\n{points}")
    with monkeypatch.context() as patch:
        patch.syspath_prepend(str(folder))
        _forget()
        yield
    _forget()


def _forget() -> None:
    own_families.cache_clear()
    decoder_entry_points.cache_clear()
    sys.modules.pop(MODULE, None)
