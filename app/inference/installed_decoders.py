"""The names of all decoders: the product's own, and those of installed packages by the entry point
`modelmill.decoders`. Nothing is loaded."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from app.inference.prediction import Decoder

ENTRY_POINTS = "modelmill.decoders"
logger = logging.getLogger(__name__)


@cache
def decoder_entry_points() -> Mapping[Decoder, EntryPoint]:
    """Returns those of installed packages; read once per process. One whose name is taken or not valid is omitted and
    logged."""
    points: dict[Decoder, EntryPoint] = {}
    for point in sorted(entry_points(group=ENTRY_POINTS), key=lambda point: (point.name, point.value)):
        try:
            decoder = Decoder(point.name)
        except ValueError as error:
            logger.warning("The decoder %s of %s is left out: %s", point.name, point.value, error)
            continue
        if decoder in points or decoder.is_bundled:
            logger.warning("The decoder %s of %s is left out: the name is taken", point.name, point.value)
        else:
            points[decoder] = point
    return points


def list_installed_decoders() -> tuple[Decoder, ...]:
    """Returns the product's own and those of installed packages, AUTO first."""
    return (*Decoder, *decoder_entry_points())


def check_installed(decoder: Decoder) -> Decoder:
    """Returns the decoder.

    Raises:
        ValueError: It is of a package that is not installed here.
    """
    if decoder not in list_installed_decoders():
        raise ValueError(f"There is no decoder {decoder.value!r}; known are {', '.join(list_installed_decoders())}.")
    return decoder
