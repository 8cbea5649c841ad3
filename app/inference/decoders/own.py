"""Decoders of installed packages, by the entry point `modelmill.decoders`: subclasses of `Detector`."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import cache
from importlib.metadata import EntryPoint

from app.inference.decoders.base import DecodedOutputs, Detector, Outputs, OutputSpec
from app.inference.errors import InferenceFailed
from app.inference.installed_decoders import decoder_entry_points
from app.inference.prediction import Decoder
from app.inference.predictor_options import PredictorOptions
from app.inference.preprocess_options import Preprocess
from app.inference.preprocessing import Fit, Size
from app.kit.errors import ModelmillError

logger = logging.getLogger(__name__)


class OwnFamily:
    """Implements ModelFamily by a detector of an installed package, whose faults end nothing.

    Args:
        detector: its code may raise anything.
    """

    def __init__(self, detector: Detector) -> None:
        self._detector = detector
        self.name: Decoder = detector.name
        self.preprocess: Preprocess = detector.preprocess
        self.usual_size: Size = detector.usual_size

    def usual_labels(self, ports: Sequence[OutputSpec]) -> tuple[str, ...]:
        """See `ModelFamily.usual_labels`."""
        try:
            return tuple(map(str, self._detector.usual_labels(ports)))
        except Exception:  # third-party code
            logger.warning("The decoder %s does not name its classes", self.name, exc_info=True)
            return ()

    def fits(self, ports: Sequence[OutputSpec], size: Size) -> bool:
        """See `ModelFamily.fits`."""
        return self._answer("fits", ports, size)

    def is_typical(self, ports: Sequence[OutputSpec], size: Size) -> bool:
        """See `ModelFamily.is_typical`."""
        return self._answer("is_typical", ports, size)

    def read(self, outputs: Outputs, fit: Fit, size: Size, options: PredictorOptions) -> DecodedOutputs:
        """See `ModelFamily.read`."""
        try:
            return self._detector.read(outputs, fit, size, options)
        except ModelmillError:
            raise
        except Exception as error:  # it is somebody else's code
            logger.warning("The decoder %s has failed", self.name, exc_info=True)
            raise InferenceFailed(
                f"the decoder {self.name.value} has failed: {_describe(error)}",
                hint="Look at its package, or choose another one.",
            ) from error

    def _answer(self, method: str, ports: Sequence[OutputSpec], size: Size) -> bool:
        try:
            return bool(getattr(self._detector, method)(ports, size))
        except Exception:  # third-party code
            logger.warning("%s of the decoder %s has failed", method, self.name, exc_info=True)
            return False


@cache
def own_families() -> tuple[OwnFamily, ...]:
    """Returns those of installed packages; loaded once per process. One that cannot be loaded is omitted and logged."""
    return tuple(family for point in decoder_entry_points().values() if (family := _load(point)) is not None)


def _load(point: EntryPoint) -> OwnFamily | None:
    try:
        detector = point.load()()
        problem = _find_problem(point, detector)
    except Exception as error:  # noqa: BLE001  # third-party code
        problem = _describe(error)
    if problem:
        logger.warning("The decoder %s of %s is left out: %s", point.name, point.value, problem)
        return None
    return OwnFamily(detector)


def _find_problem(point: EntryPoint, detector: object) -> str:
    """Returns why it cannot be used; empty if it can."""
    if not isinstance(detector, Detector):
        return "it is no subclass of app.inference.decoders.base.Detector"
    missing = [name for name in ("name", "preprocess", "usual_size") if not hasattr(detector, name)]
    if missing:
        return f"it has no {missing[0]}"
    if not isinstance(detector.name, Decoder) or detector.name != point.name:
        return f"its name is not Decoder({point.name!r})"
    return ""


def _describe(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:300]
