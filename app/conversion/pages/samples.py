"""The bundled samples: models with pictures that a newcomer converts with one click."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from app.kit.errors import NotFound
from app.kit.files import data_folder

DIGITS, DRAWN = data_folder("ops/samples/digits"), data_folder("ops/samples/drawn")


@dataclass(frozen=True)
class SampleCard:
    """A bundled sample, as the page shows it."""

    name: str
    model: Path
    pictures: Path

    @property
    def is_installed(self) -> bool:
        return self.model.exists() and self.pictures.exists()


ALL = (
    SampleCard("digits", DIGITS / "digits.onnx", DIGITS / "reference.zip"),
    SampleCard("shapes", DRAWN / "shapes.onnx", DRAWN / "shapes.zip"),
    SampleCard("dots", DRAWN / "dots.onnx", DRAWN / "dots.zip"),
)


def list_installed() -> list[SampleCard]:
    return [sample for sample in ALL if sample.is_installed]


def sample_of(name: str) -> SampleCard:
    """Returns a bundled sample.

    Raises:
        NotFound: It does not exist, or is not installed.
    """
    matching = next((sample for sample in list_installed() if sample.name == name), None)
    if matching is None:
        raise NotFound(f"The sample {name!r} is not installed here.", hint="Start from a copy of the repository.")
    return matching
