"""The contract of a hard-example algorithm. Pure: it receives the small model's answer, never the picture."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Protocol

from app.inference.prediction import Prediction
from app.kit.errors import BadInput


class UnknownAlgorithm(BadInput):
    code = "UNKNOWN_ALGORITHM"


class BadParameter(BadInput):
    """detail: {"key": …}"""

    code = "BAD_PARAMETER"


@dataclass(frozen=True)
class Verdict:
    """How hard a sample is."""

    is_hard: bool
    score: float
    """The more the harder, comparable within one algorithm: under a budget the hardest go up first."""
    why: str = ""
    """A few words for the page, as "2 of 4 candidates ≤ 0.90"."""


class HardExampleAlgorithm(Protocol):
    """Made once per worker by `make(parameters)`, where values are the strings of the resource.

    One that judges without looking at the prediction says so by an attribute `needs_prediction = False`: only such can
    decide before the small model has run. Calls may come from several threads, one at a time.
    """

    name: ClassVar[str]

    def __call__(self, prediction: Prediction) -> Verdict: ...

    def never(self, *, candidate_threshold: float) -> str:
        """Why nothing that a detector sees can ever be hard with these parameters; empty when something can, and when
        it is meant."""


class Algorithm(Protocol):
    """What an entry point names: a callable that makes one. Raises BadParameter.

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
    """As it would be written."""
    description: str
    least: float | None = None
    most: float | None = None
