"""The circuit breaker before the big model. Pure; whoever uses it from several threads takes a lock."""

from __future__ import annotations

from app.joint_inference.model.tally import Breaker


class CircuitBreaker:
    """Opens after `errors` failures in a row. While it is open nothing is sent; `pause_s` later one probe may ask
    whether the cloud is back (half-open). A probe that succeeds closes it, but on trial: until a sample is answered the
    first failure opens it again, for a server may say that it lives and answer nothing."""

    def __init__(self, *, errors: int, pause_s: float) -> None:
        self.errors = errors
        self.pause_s = pause_s
        self.state = Breaker.CLOSED
        self._failures = 0
        self._opened_at = 0.0

    @property
    def lets_through(self) -> bool:
        return self.state is Breaker.CLOSED

    def succeeded(self) -> None:
        """A sample was answered. One that was sent before it opened does not close it: the probe does."""
        if self.state is Breaker.CLOSED:
            self._failures = 0

    def failed(self, now: float) -> None:
        """now: seconds of a clock that never goes back."""
        if self.state is not Breaker.CLOSED:
            return
        self._failures += 1
        if self._failures >= self.errors:
            self._open(now)

    def take_probe(self, now: float) -> bool:
        """True for the one who is to probe now; they say how it went."""
        if self.state is not Breaker.OPEN or now - self._opened_at < self.pause_s:
            return False
        self.state = Breaker.HALF_OPEN
        return True

    def probed(self, now: float, *, is_well: bool) -> None:
        if not is_well:
            self._open(now)
            return
        self.state = Breaker.CLOSED
        self._failures = self.errors - 1

    def _open(self, now: float) -> None:
        self.state = Breaker.OPEN
        self._opened_at = now
