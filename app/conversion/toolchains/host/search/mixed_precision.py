"""Which tensors get 16 bits: in the order of their benefit at the worst output, as many as the goal needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from app.conversion.toolchains.host.search.candidates import Choice
from app.conversion.toolchains.host.search.sensitivity import Sensitivity
from app.conversion.toolchains.host.search.template import Template

NEAR, STEP = 8, 3
"""The search ends within one NEAR-th of the least sufficient number; from an insufficient number it advances by at
least STEP."""
LEFT_LEAST = 1e-3
"""Least share of a picture's noise that remains if the tensor with the most noise is exact."""
REST = 1e-4
"""Share of a picture's noise that is expected to remain however many tensors have 16 bits: theirs, and of what was not
measured."""

Attempt = Callable[[int], tuple[bool, float] | None]


def widen(base: Choice, rows: Sequence[Sensitivity], *, is_float: bool = False, has_headroom: bool = True) -> Choice:
    """Returns the choice with these tensors in 16 bits, or in float.

    Args:
        base: in 8 bits, perhaps without the last layers.
        rows: of these tensors.
        is_float: they stay in float.
        has_headroom: ranges in 16 bits are wider than what was seen.
    """
    if is_float:
        return replace(base, exact=frozenset(row.tensor for row in rows))
    wide = frozenset(row.tensor for row in rows if not row.is_weight)
    weights = frozenset(row.tensor for row in rows if row.is_weight)
    return replace(base, wide=wide, wide_weights=weights, has_headroom=has_headroom)


def not_measured(template: Template, rows: Sequence[Sensitivity]) -> list[Sensitivity]:
    """Returns the tensors that were not measured for lack of time, which get 16 bits last."""
    known, nothing = {row.tensor for row in rows}, np.zeros((0, 0))
    names = [(one.name, False) for one in template.activations] + [(one.name, True) for one in template.weights]
    left = [(name, is_weight) for name, is_weight in names if name not in known]
    return [Sensitivity(name, "", is_weight, "", nothing, nothing) for name, is_weight in left]


def order_greedily(rows: Sequence[Sensitivity], *, with_own_ranges: bool) -> list[Sensitivity]:
    """Orders tensors greedily: each next one raises the predicted SNR of the worst judged tensor most, as the mean over
    the pictures in dB.

    A picture with a nearly silent output has a high noise-to-signal ratio, but counts as one picture like any other.

    Args:
        with_own_ranges: tensors in 8 bits have the range that costs least for them alone.
    """
    if not rows:
        return []
    noise = np.stack([row.noise if with_own_ranges else row.usual_noise for row in rows])
    left, order = list(range(len(rows))), []
    total = noise.sum(axis=0)
    while left:
        worst = int(np.argmax(np.log(np.maximum(total, 1e-30)).mean(axis=0)))
        share = noise[left, :, worst] / np.maximum(total[:, worst], 1e-30)
        gain = -np.log(np.maximum(1.0 - share, LEFT_LEAST)).mean(axis=1)
        best = left[int(np.argmax(gain))]
        order.append(rows[best])
        left.remove(best)
        total = np.maximum(total - noise[best], 0.0)
    return order


def predict_db(order: Sequence[Sensitivity], *, with_own_ranges: bool) -> list[float]:
    """Returns the SNR of the worst judged tensor, as mean over the pictures, with the first 0, 1, … tensors of the
    order exact.

    The noise of tensors is assumed to add up, except for a small part of it that nothing removes.
    """
    noise = np.stack([row.noise if with_own_ranges else row.usual_noise for row in order])
    left = np.cumsum(noise[::-1], axis=0)[::-1]
    left = np.concatenate([left, np.zeros_like(noise[-1:])]) + REST * left[:1]
    values = (-10.0 * np.log10(np.maximum(left, 1e-12))).mean(axis=1).min(axis=1)
    return [float(value) for value in values]


class Forecast:
    """Predicts the SNR with a number of tensors in 16 bits, from what was expected and what was measured so far.

    Args:
        expected: SNR with 0, 1, … tensors in 16 bits, in dB, from what each costs alone.
        base_db: measured SNR with 0 of them, in dB.
    """

    def __init__(self, expected: Sequence[float], base_db: float) -> None:
        self._expected = expected
        self._measured = {0: base_db}

    def learn(self, count: int, snr_db: float) -> None:
        """Adds a measurement."""
        self._measured[count] = snr_db

    def snr_db(self, count: int) -> float:
        """Returns the SNR: between two measured numbers, and beyond them, the share of the expected gain that was
        reached there; the whole gain where only 0 was measured."""
        below = max(known for known in self._measured if known <= count)
        above = min((known for known in self._measured if known > count), default=None)
        before = max((known for known in self._measured if known < below), default=None)
        gain_db = self._expected[count] - self._expected[below]
        if above is not None:
            share = self._share(below, above)
        elif before is not None:
            share = min(1.0, max(0.0, self._share(before, below)))
        else:
            share = 1.0
        return self._measured[below] + share * gain_db

    def _share(self, low: int, high: int) -> float:
        """Returns the share of the expected gain between two measured numbers that was reached."""
        gain_db = self._expected[high] - self._expected[low]
        return (self._measured[high] - self._measured[low]) / gain_db if gain_db > 0 else 0.0


def fewest(
    expected: Sequence[float],
    base_db: float,
    needed_db: float,
    attempt: Attempt,
    known: Mapping[int, tuple[bool, float]] | None = None,
) -> int | None:
    """Finds about the least number k ≥ 1 that suffices; None if none that was tried does.

    The next number follows from the forecast; where no number is expected to suffice, it is twice the last, or midway
    to the least sufficient one. Results need not grow with k; the search ends within an eighth of the least sufficient
    number that was tried.

    Args:
        expected: predicted SNR with 0, 1, … tensors in 16 bits, in dB; further tensors gain nothing.
        base_db: SNR with 0 of them, in dB.
        needed_db: SNR that is about sufficient, in dB.
        attempt: tries a number of them. Returns whether it suffices, and its SNR in dB; None ends the search.
        known: what `attempt` would return for numbers that were tried before, when less SNR was needed.
    """
    count = len(expected) - 1
    tried, forecast = known or {}, Forecast(expected, base_db)
    high = min((k for k, (holds, _) in tried.items() if holds), default=count + 1)
    low = max((k for k in tried if k < high), default=0)
    for k, (_, reached_db) in tried.items():
        forecast.learn(k, reached_db)
    while high - low > (max(1, high // NEAR) if high <= count else 1):
        further = (low + high) // 2 if high <= count else 2 * low or count
        guess = next((k for k in range(low + 1, high) if forecast.snr_db(k) >= needed_db), further)
        least = low + max(1, low // STEP)
        most = high - max(1, high // NEAR) if high <= count else count
        k = min(max(guess, least), max(most, low + 1))
        answer = attempt(k)
        if answer is None:
            break
        holds, reached_db = answer
        forecast.learn(k, reached_db)
        low, high = (low, k) if holds else (k, high)
    return high if high <= count else None
