"""The contract of a hard-example algorithm. Pure: it receives the small model's answer, never the picture."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Protocol

from app.inference.prediction import Prediction
from app.kit.errors import BadInput


class UnknownAlgorithm(BadInput, code="UNKNOWN_ALGORITHM"): ...


class BadParameter(BadInput, code="BAD_PARAMETER"):
    """detail: {"key": …}"""


@dataclass(frozen=True)
class Verdict:
    """How hard a sample is."""

    is_hard: bool
    score: float
    """The higher the harder, comparable within one algorithm: under a budget the hardest are uploaded first."""
    why: str = ""
    """A few words for the page, such as "2 of 4 candidates ≤ 0.90"."""


class HardExampleAlgorithm(Protocol):
    """Made once per worker by `make(parameters)`, where values are the strings of the resource.

    An algorithm that judges without the prediction has the attribute `needs_prediction = False`: only such an algorithm
    can decide before the small model has run. Calls may come from several threads, one at a time.
    """

    name: ClassVar[str]

    def __call__(self, prediction: Prediction) -> Verdict: ...

    def never(self, *, candidate_threshold: float) -> str:
        """Returns why no sample of a detector can ever be hard with these parameters; empty if one can, or if this is
        intended."""


class Algorithm(Protocol):
    """The target of an entry point: a callable that makes an algorithm, and raises BadParameter.

    It may have `description`, a text, and `parameters`, a sequence of Parameter, for the forms.
    """

    def __call__(self, parameters: Mapping[str, str]) -> HardExampleAlgorithm: ...


@dataclass(frozen=True)
class Parameter:
    """One parameter for a form."""

    key: str
    kind: str
    """number, whole or flag."""
    default: str
    """As a user would write it."""
    description: str
    least: float | None = None
    most: float | None = None
