"""When hard samples may go up: within the upload budget, and while the circuit breaker is closed. Pure."""

from __future__ import annotations

from collections import deque

from app.edge.circuit_breaker import CircuitBreaker
from app.joint_inference.model.tally import Breaker

WINDOW = 100
"""Inferences among which hardness is compared, and whose share fits into the bucket."""
ROUNDING = 1e-9


class UploadBudget:
    """A token bucket of which the hardest samples get the tokens.

    Each inference adds `ratio` of a token, an upload costs one. The bucket starts empty, so never more than this share
    has gone up, and holds what WINDOW inferences add (at least one), so that a burst after a quiet time is bounded. A
    hard sample gets a token when there is one and at most the budget's share of the last WINDOW inferences was harder.
    """

    def __init__(self, ratio: float) -> None:
        self.ratio = ratio
        self._tokens = 0.0
        self._recent: deque[float] = deque(maxlen=WINDOW)

    def spend(self, score: float | None) -> bool:
        """Count one inference.

        Args:
            score: how hard it was; None: easy.

        Returns:
            Whether it may go up.
        """
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
        """Return the token of a sample that was not sent."""
        self._tokens = min(max(1.0, self.ratio * WINDOW), self._tokens + 1)


class ProbedBreaker(CircuitBreaker):
    """While it is open nothing is sent, and only a probe closes it: the cloud is asked whether it is back (half-open).

    A successful probe closes it on trial: until a sample is answered the first failure reopens it, since a server may
    report health and answer nothing. Not thread-safe.
    """

    def __init__(self, *, errors: int, pause_s: float) -> None:
        """
        Args:
            errors: Failures in a row that open it.
            pause_s: For how long before each probe.
        """
        super().__init__(errors=errors, pause_s=pause_s)
        self.state = Breaker.CLOSED

    @property
    def lets_through(self) -> bool:
        return self.state is Breaker.CLOSED

    def succeeded(self) -> None:
        """A sample was answered. An answer to an earlier sample does not close it."""
        if self.state is Breaker.CLOSED:
            super().succeeded()

    def failed(self, now: float) -> None:
        """A sample was not answered.

        Args:
            now: seconds of a monotonic clock.
        """
        if self.state is Breaker.CLOSED:
            super().failed(now)
            self.state = Breaker.OPEN if self.has_opened else Breaker.CLOSED

    def take_probe(self, now: float) -> bool:
        """True for the one caller that is to probe now and call `probed`."""
        if self.state is not Breaker.OPEN or self.left_s(now) > 0:
            return False
        self.state = Breaker.HALF_OPEN
        return True

    def probed(self, now: float, *, is_well: bool) -> None:
        if is_well:
            self.state = Breaker.CLOSED
        else:
            super().failed(now)
            self.state = Breaker.OPEN
