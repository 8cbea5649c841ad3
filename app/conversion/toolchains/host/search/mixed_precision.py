"""Which tensors get 16 bits: in the order of what each saves at the worst output, as many as the goal needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from app.conversion.toolchains.host.search.sensitivity import Sensitivity

NEAR = 8
LEFT_LEAST = 1e-3
"""Of the noise of a picture, once the tensor that makes most of it is exact."""


def ordered(rows: Sequence[Sensitivity], *, with_own_ranges: bool) -> list[Sensitivity]:
    """Greedy: each next one lifts the predicted SNR of the worst judged tensor most, in dB at the mean of the pictures.

    A picture whose output is nearly silent has much noise for its signal, and counts as one picture all the same.

    Args:
        with_own_ranges: What is left in 8 bits has the range with which it costs least alone.
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


def fewest(count: int, holds: Callable[[int], bool]) -> int | None:
    """About the least number k in 1..count for which holds(k), by doubling and bisection; None where none was met.

    What holds need not grow with k: it is the least that was met on the way, and bisection ends within an eighth of it.
    """
    high, low = 1, 0
    while not holds(min(high, count)):
        if high >= count:
            return None
        low, high = high, min(high * 2, count)
    while high - low > max(1, high // NEAR):
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle
    return high
