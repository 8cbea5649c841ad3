"""The messages of one queue that a process holds, and what Redis must still receive about them."""

from __future__ import annotations

import contextvars
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from dramatiq import MessageProxy

from app.kit.redis.connections import ScriptCall

MESSAGE_ID = "redis_message_id"


class FinalCall:
    """The last call of the work on a message, which also acknowledges it.

    It is repeated until Redis has received it, so repeating it must do no harm.

    Args:
        call: works from the queues' database, and acknowledges a message (record_scripts.ACKNOWLEDGE).
        on_reply: receives the reply once, in the context (logs) of the work.
    """

    def __init__(self, call: ScriptCall, on_reply: Callable[[Any], None]) -> None:
        self.call = call
        self.redis_id = ""
        """Of the message, once the call is left."""
        self._on_reply = on_reply
        self._context = contextvars.copy_context()

    def replied(self, reply: Any) -> None:
        self._context.run(self._on_reply, reply)


@dataclass(eq=False)
class Outcome:
    """The outcome of a message: done, or dead."""

    is_done: bool
    message_id: str
    redis_id: str
    final: FinalCall | None
    """Sent instead of the outcome; None if there is none."""


@dataclass(frozen=True)
class UnsettledMessages:
    """Outlives the consumer, which is recreated with each connection."""

    messages: dict[str, str] = field(default_factory=dict)
    """Message id → redis id, until Redis has received the outcome."""
    claimed: dict[str, dict[str, str]] = field(default_factory=dict)
    """Redis id → the record that came with the message, until its work starts."""
    outcomes: deque[Outcome] = field(default_factory=deque)
    """Outcomes that Redis has not received yet."""
    may_have_room: threading.Event = field(default_factory=threading.Event)
    _work: threading.local = field(default_factory=threading.local)

    @property
    def unfinished(self) -> int:
        return len(self.messages) - len(self.outcomes)

    @property
    def is_busy(self) -> bool:
        """Whether messages are unfinished, or final calls not sent."""
        return self.unfinished > 0 or any(outcome.final for outcome in list(self.outcomes))

    def work(
        self, process: Callable[[MessageProxy], None], message: MessageProxy, on_final: Callable[[FinalCall], None]
    ) -> None:
        """Processes a message in this thread; the work may leave a final call.

        Args:
            process: works on a message.
            message: what it works on.
            on_final: receives the call as soon as the work leaves it.
        """
        self._work.on_final = on_final
        self._work.redis_id = message.options[MESSAGE_ID]
        try:
            process(message)
        finally:
            self._work.on_final = None

    def leave(self, final: FinalCall) -> bool:
        """Keeps the final call of the message that this thread works on. False if it works on none."""
        on_final = getattr(self._work, "on_final", None)
        if on_final is None:
            return False
        final.redis_id = self._work.redis_id
        self._work.final = final
        on_final(final)
        return True

    def pending(self) -> tuple[list[Outcome], list[FinalCall]]:
        """Returns what Redis has not received yet: the outcomes without a final call, and the final calls."""
        outcomes: list[Outcome] = []
        finals: list[FinalCall] = []
        for outcome in list(self.outcomes):
            if outcome.final is None:
                outcomes.append(outcome)
            else:
                finals.append(outcome.final)
        return outcomes, finals

    def settle(self, message: MessageProxy, *, is_done: bool) -> None:
        final = vars(self._work).pop("final", None)
        self.outcomes.append(Outcome(is_done, message.message_id, message.options[MESSAGE_ID], final))
        if not self.may_have_room.is_set():  # needs no lock, unlike set
            self.may_have_room.set()

    def settled(self, final: FinalCall) -> None:
        """Redis has received the call, and the outcome with it."""
        for outcome in [outcome for outcome in self.outcomes if outcome.final is final]:
            self.forget(outcome)

    def forget(self, outcome: Outcome) -> None:
        self.outcomes.remove(outcome)
        self.messages.pop(outcome.message_id, None)
