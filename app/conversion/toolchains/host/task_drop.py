"""The loss of task performance by quantization: by labels if the pictures have them, otherwise against the float
model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from app.conversion.toolchains.host.labeled_quality import Meter, meter_of_labels
from app.conversion.toolchains.host.task_metrics import Outputs, TaskMeter, task_meter
from app.conversion.toolchains.samples.labels import Labels
from app.inference.preprocess_options import Preprocess


class DropMeter(Protocol):
    """Adds pictures up; keeps no outputs."""

    def add(self, sample: str, expected: Outputs, actual: Outputs) -> None:
        """One picture's outputs, of the float and of the quantized model."""

    def drop_percent(self) -> float | None:
        """Over all pictures so far; None if none of them tells."""


def drop_meter(model: Any, labels: Labels | None, preprocess: Preprocess) -> DropMeter | None:
    """For one candidate; None if neither labels nor the outputs tell what the task is.

    Args:
        model: The float model (onnx.ModelProto).
        labels: Of the pictures, as far as they have any.
    """
    known = task_meter(model)
    agreement = None if known is None else AgreementDrop(known)
    pair = [meter_of_labels(model, labels, preprocess) if labels else None for _ in range(2)]
    if labels is None or pair[0] is None or pair[1] is None:
        return agreement
    return LabeledDrop(labels, pair[0], pair[1], agreement)


@dataclass
class AgreementDrop:
    """Of the answers, those that are not the float model's."""

    meter: TaskMeter

    def add(self, sample: str, expected: Outputs, actual: Outputs) -> None:  # noqa: ARG002  # labels are by sample
        self.meter.add(expected, actual)

    def drop_percent(self) -> float | None:
        share = self.meter.agreement().float_agreement
        return None if share is None else 100.0 * (1.0 - share)


@dataclass
class LabeledDrop:
    """Of the first metric by labels (top-1, mAP), what the float model has more, in percentage points.

    Args:
        otherwise: What tells where none of the pictures has a label.
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
