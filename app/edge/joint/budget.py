"""How many samples may go up: a token bucket, of which the hardest samples get the tokens. Pure."""

from __future__ import annotations

from collections import deque

WINDOW = 100
"""Inferences over which hardness is compared, and for whose share the bucket has room."""
ROUNDING = 1e-9


class Budget:
    """Each inference brings `ratio` of a token, an upload costs one. The bucket is empty at first, so never more than
    this share has gone up, and holds what WINDOW inferences bring (one at least), so a burst after a quiet time is
    bounded. A hard sample gets a token when there is one and no more than the budget's share of the last WINDOW
    inferences was harder: it is decided at once, and nobody waits."""

    def __init__(self, ratio: float) -> None:
        self.ratio = ratio
        self._tokens = 0.0
        self._recent: deque[float] = deque(maxlen=WINDOW)

    def spend(self, score: float | None) -> bool:
        """One inference; score: how hard, None for an easy one. True: it may go up."""
        self._tokens = min(max(1.0, self.ratio * WINDOW), self._tokens + self.ratio)
        harder = sum(score < other for other in self._recent) if score is not None else 0
        self._recent.append(-1.0 if score is None else score)
        if score is None or self._tokens < 1 - ROUNDING:
            return False
        if harder >= max(1.0, self.ratio * len(self._recent)) - ROUNDING:
            return False
        self._tokens -= 1
        return True

    def give_back(self) -> None:
        """It was not sent after all."""
        self._tokens = min(max(1.0, self.ratio * WINDOW), self._tokens + 1)
