"""Algorithms by name: the bundled ones, and custom ones by an entry point. A failure to load one is reported, not
fatal."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from app.joint_inference.hard_examples.algorithms import CloudOnly, CrossEntropy, EdgeOnly, Ibt, Random, Threshold
from app.joint_inference.hard_examples.base import (
    Algorithm,
    BadParameter,
    HardExampleAlgorithm,
    Parameter,
    UnknownAlgorithm,
)
from app.kit.errors import ModelmillError

GROUP = "modelmill.hard_examples"
RESERVED = {"BertRouter": "it routes texts, and pictures are what is judged here"}
BUNDLED: Mapping[str, type[Ibt | Threshold | CrossEntropy | Random | CloudOnly | EdgeOnly]] = {
    algorithm_class.name: algorithm_class
    for algorithm_class in (Ibt, Threshold, CrossEntropy, Random, CloudOnly, EdgeOnly)
}
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class AlgorithmEntry:
    """An algorithm for forms and messages."""

    name: str
    algorithm: Algorithm | None
    """None if there is a problem."""
    description: str = ""
    parameters: tuple[Parameter, ...] = ()
    needs_prediction: bool = True
    """Only an algorithm that does not can decide before the small model has run."""
    origin: str = ""
    """Empty for a bundled one, otherwise `module:name (package)`."""
    problem: str = ""
    """Why it cannot be used."""


@cache
def load_algorithms() -> Mapping[str, AlgorithmEntry]:
    """Returns the algorithms by name, bundled ones first. Entry points are read once per process."""
    algorithms = {name: _describe(name, algorithm) for name, algorithm in BUNDLED.items()}
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        if point.name in algorithms or point.name in RESERVED:
            logger.warning("Hard-example algorithm %s of %s is left out: the name is taken", point.name, point.value)
            continue
        algorithms[point.name] = _load(point)
    return algorithms


def make(name: str, parameters: Mapping[str, str]) -> HardExampleAlgorithm:
    """Makes an algorithm.

    Raises:
        UnknownAlgorithm: There is none of this name.
        BadParameter: A parameter is not valid.
    """
    if name in RESERVED:
        raise UnknownAlgorithm(
            f"The hard-example algorithm {name} is not for this: {RESERVED[name]}.", hint=_build_hint()
        )
    entry = load_algorithms().get(name)
    if entry is None:
        raise UnknownAlgorithm(f"There is no hard-example algorithm {name!r}.", hint=_build_hint())
    if entry.algorithm is None:
        raise UnknownAlgorithm(
            f"The hard-example algorithm {name} cannot be loaded: {entry.problem}.", hint=_build_hint()
        )
    try:
        return entry.algorithm(parameters)
    except ModelmillError:
        raise
    except Exception as error:  # third-party code
        raise BadParameter(
            f"The hard-example algorithm {name} takes no such parameters: {_describe_error(error)}.", detail={"key": ""}
        ) from error


def needs_prediction(algorithm: HardExampleAlgorithm) -> bool:
    return bool(getattr(algorithm, "needs_prediction", True))


def _build_hint() -> str:
    return f"There are {', '.join(name for name, entry in load_algorithms().items() if entry.algorithm is not None)}."


def _load(point: EntryPoint) -> AlgorithmEntry:
    origin = f"{point.value} ({point.dist.name})" if point.dist else point.value
    try:
        algorithm = point.load()
    except Exception as error:  # noqa: BLE001  # it is somebody else's code
        logger.warning("Hard-example algorithm %s cannot be loaded: %s", origin, _describe_error(error))
        return AlgorithmEntry(point.name, None, origin=origin, problem=_describe_error(error))
    if not callable(algorithm):
        return AlgorithmEntry(point.name, None, origin=origin, problem="it is not callable")
    return _describe(point.name, algorithm, origin)


def _describe(name: str, algorithm: Algorithm, origin: str = "") -> AlgorithmEntry:
    parameters = getattr(algorithm, "parameters", ())
    shown = parameters if isinstance(parameters, list | tuple) else ()
    return AlgorithmEntry(
        name,
        algorithm,
        description=str(getattr(algorithm, "description", "")),
        parameters=tuple(entry for entry in shown if isinstance(entry, Parameter)),
        needs_prediction=bool(getattr(algorithm, "needs_prediction", True)),
        origin=origin,
    )


def _describe_error(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:300]
