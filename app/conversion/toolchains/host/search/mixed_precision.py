"""Which tensors get 16 bits: in the order of what each saves at the worst output, as many as the goal needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from app.conversion.toolchains.host.search.sensitivity import Sensitivity

PRUNES = 10
"""How many of the chosen are tried without, one after the other."""


def ordered(rows: Sequence[Sensitivity]) -> list[Sensitivity]:
    """Greedy: each next one lowers the predicted noise at the worst judged tensor most."""
    if not rows:
        return []
    noise = np.stack([row.noise for row in rows])
    left, order = list(range(len(rows))), []
    total = noise.sum(axis=0)
    while left:
        worst = int(np.argmax(np.log(np.maximum(total, 1e-30)).mean(axis=0)))
        column = noise[left, :, worst].mean(axis=1)
        best = left[int(np.argmax(column))]
        order.append(rows[best])
        left.remove(best)
        total = np.maximum(total - noise[best], 0.0)
    return order


def fewest(count: int, holds: Callable[[int], bool]) -> int | None:
    """The least number k in 1..count for which holds(k), by doubling and bisection; None where none was met.

    What holds need not grow with k: it is the least that was met on the way.
    """
    high, before = 1, 0
    while not holds(min(high, count)):
        if high >= count:
            return None
        before, high = high, min(high * 2, count)
    low = before
    while high - low > 1:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle
    return high


def pruned(chosen: Sequence[Sensitivity], holds: Callable[[Sequence[Sensitivity]], bool]) -> list[Sensitivity]:
    """Without those that are not needed; those that save least are tried first."""
    kept = list(chosen)
    for row in list(reversed(chosen))[:PRUNES]:
        without = [other for other in kept if other is not row]
        if without and holds(without):
            kept = without
    return kept
