"""The loss of task performance by quantization: measured by labels if the pictures have them, otherwise against the
float model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from app.conversion.toolchains.host.labeled_quality import Meter, meter_of_labels
from app.conversion.toolchains.host.task_metrics import Outputs, TaskMeter
from app.conversion.toolchains.host.task_recognition import task_meters
from app.conversion.toolchains.samples.labels import Labels
from app.inference.preprocess_options import Preprocess


class DropMeter(Protocol):
    """Accumulates over pictures without keeping outputs."""

    def add(self, sample: str, expected: Outputs, actual: Outputs) -> None:
        """Adds one picture's outputs, of the float and of the quantized model."""

    def drop_percent(self) -> float | None:
        """Returns the loss over all pictures so far; None if none of them shows it."""


def drop_meters(model: Any, labels: Labels | None, preprocess: Preprocess) -> Callable[[], DropMeter | None]:
    """Returns what makes a meter for each candidate, or None if neither labels nor outputs show what the task is.

    Args:
        model: the float model (onnx.ModelProto).
        labels: of the pictures, as far as they have labels.
    """
    make = task_meters(model)

    def meter() -> DropMeter | None:
        known = make()
        agreement = None if known is None else AgreementDrop(known)
        pair = [meter_of_labels(model, labels, preprocess) if labels else None for _ in range(2)]
        if labels is None or pair[0] is None or pair[1] is None:
            return agreement
        return LabeledDrop(labels, pair[0], pair[1], agreement)

    return meter


@dataclass
class AgreementDrop:
    """Share of the answers that differ from the float model's."""

    meter: TaskMeter

    def add(self, sample: str, expected: Outputs, actual: Outputs) -> None:  # noqa: ARG002  # labels are by sample
        self.meter.add(expected, actual)

    def drop_percent(self) -> float | None:
        share = self.meter.agreement().float_agreement
        return None if share is None else 100.0 * (1.0 - share)


@dataclass
class LabeledDrop:
    """Loss in the first metric by labels (top-1, mAP), in percentage points.

    Args:
        otherwise: the meter used if no picture has labels.
    """

    labels: Labels
    exact: Meter
    rounded: Meter
    otherwise: DropMeter | None

    def add(self, sample: str, expected: Outputs, actual: Outputs) -> None:
        if self.otherwise is not None:
            self.otherwise.add(sample, expected, actual)
        if (truth := self.labels.of(sample)) is not None:
            self.exact.add(truth, expected)
            self.rounded.add(truth, actual)

    def drop_percent(self) -> float | None:
        exact, rounded = self.exact.values(), self.rounded.values()
        if not exact or not rounded:
            return None if self.otherwise is None else self.otherwise.drop_percent()
        metric = next(iter(exact))
        return 100.0 * (exact[metric] - rounded[metric])
