"""Checks whether two models compute the same: both run on the same samples, and every output is compared.

The ONNX stage proves out.onnx equal to the original with it, the NEF stage out.nef equal to out.bie.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from app.conversion.toolchains.host.inputs import Array, SampleArrays
from app.conversion.toolchains.tensor_comparison import require_finite, significant
from app.conversion.toolchains.tensor_statistics import OutputStatistics, TensorStatistics
from app.kit.text.json_values import JsonObject

Run = Callable[[Mapping[str, Array]], Mapping[str, Array]]


@dataclass(frozen=True)
class Equivalence:
    """The result over all samples.

    Args:
        bounded: outputs between 0 and 1, whose differences are compared with 1. Their SNR says nothing where all values
            are nearly 0, as of a detector that detects nothing.
    """

    samples: int
    statistics: OutputStatistics
    bounded: Collection[str] = ()

    @property
    def is_exact(self) -> bool:
        return self.samples > 0 and self.statistics.is_exact

    def is_equal(self, snr_db_min: float) -> bool:
        """Returns whether every output of every sample has the same shape, and an SNR of at least snr_db_min."""
        if self.statistics.has_other_shapes:
            return False
        return all(
            (tensor.name in self.bounded and tensor.max_abs <= BOUNDED_ABS_MAX) or _is_near(tensor, snr_db_min)
            for tensor in self.statistics.tensors.values()
        )

    def to_dict(self) -> JsonObject:
        """{samples, outputs: [{name, max_abs_diff, snr_db, cosine, exact}], exact}.

        snr_db and cosine are {mean, min, p5, n} over the samples.
        """
        return {
            "samples": self.samples,
            "outputs": [_describe_output(tensor) for tensor in self.statistics.tensors.values()],
            "exact": self.is_exact,
        }


def prove(
    reference: Run, candidate: Run, samples: Iterable[SampleArrays], bounded: Collection[str] = ()
) -> Equivalence:
    """Run both on every sample.

    Args:
        bounded: See `Equivalence`.

    Raises:
        NotFinite: A NaN or an infinity on either side; names tensor and sample.
    """
    statistics = OutputStatistics()
    count = 0
    for sample in samples:
        require_finite_arrays(sample.arrays, sample.name)
        expected = reference(sample.arrays)
        require_finite_arrays(expected, sample.name)
        statistics.add(sample.name, expected, candidate(sample.arrays))
        count += 1
    return Equivalence(count, statistics, bounded)


def require_finite_arrays(arrays: Mapping[str, Array], sample: str) -> None:
    """Checks that every value is finite.

    Raises:
        NotFinite: An array has a NaN or an infinity; the error names the first one.
    """
    for name, array in arrays.items():
        require_finite(array, name, sample)


SILENT_ABS_MAX = 1e-6
"""Largest difference allowed where the reference is zero everywhere, and so has no SNR."""
BOUNDED_ABS_MAX = 1e-4
"""Largest difference allowed of an output between 0 and 1: 80 dB below 1."""


def _is_near(tensor: TensorStatistics, snr_db_min: float) -> bool:
    without_snr = tensor.samples - len(tensor.snr_db.values)
    if without_snr and tensor.max_abs > SILENT_ABS_MAX:
        return False
    return min(tensor.snr_db.values, default=snr_db_min) >= snr_db_min


def _describe_output(tensor: TensorStatistics) -> JsonObject:
    return {
        "name": tensor.name,
        "max_abs_diff": significant(tensor.max_abs),
        "snr_db": tensor.snr_db.summary(2),
        "cosine": tensor.cosine.summary(6),
        "exact": tensor.is_exact,
    }
