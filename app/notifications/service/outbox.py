"""The outbox: messages are recorded with the events they report, and sent until they are accepted.

At least once: a process that dies between a receiver's response and its record sends again, under the same id. A missed
wake-up does no harm, because each pulse of the clock checks everything that is due.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

import anyio
from anyio.streams.memory import MemoryObjectSendStream

from app.kit import clock
from app.kit.access import EnabledOf
from app.kit.clock import from_text, to_text
from app.kit.errors import ModelmillError
from app.kit.sql import Database, Event, note_change
from app.kit.sql.events import EventListener
from app.notifications.errors import DeliveryNotFound
from app.notifications.model import PATIENCE_S, PAUSE, Delivery, DeliveryState, Outcome, Target
from app.notifications.record import CHANGED
from app.notifications.store import deliveries, targets

if TYPE_CHECKING:
    from app.notifications.senders import Senders

LEASE_S = 60.0
"""More seconds than a try may take."""
LOOK_S = 0.5
"""Between two looks at what has become due while tries are under way."""
AT_ONCE = 200
OF_ONE_TARGET = 10
"""How many messages of one target are tried at once, so that a target that does not answer delays no others."""
MOST_WAITING = 1000
"""With more waiting messages than this, a target is switched off."""
KEEP_DAYS = 30
"""Days after its end for which a message can be seen and sent again."""
KEEP_MOST = 10_000
"""For one target."""
SHOWN = 50
DISABLED = Outcome(False, problem="its user is disabled")
logger = logging.getLogger(__name__)


@dataclass(eq=False)
class Outbox:
    """Sends messages, and notes the results.

    Args:
        senders: one for each kind of target.
        record: records the messages of an event, in its transaction.
        enabled_of: returns which of these users are enabled; the others are not notified.
    """

    database: Database
    senders: Senders
    record: EventListener
    _: KW_ONLY
    enabled_of: EnabledOf

    def note(self, event: Event) -> None:
        """Record who is notified of something that happened outside of the database. The same event may come twice.

        Raises:
            DatabaseUnavailable: It could not be recorded.
        """
        with self.database.read() as conn:
            if not targets.list_interested(conn, event.owner, event.kind, event.subject):
                return
        with self.database.write() as conn:
            self.record(conn, event)

    def deliver_due(self) -> int:
        """Try everything that is due, many at once, and what becomes due meanwhile: no receiver delays others.

        Returns:
            How many were tried.

        Raises:
            DatabaseUnavailable: What is due could not be read.
        """
        return anyio.run(self._deliver_due)

    async def _deliver_due(self) -> int:
        count, under_way = 0, Counter[str]()
        failure: ModelmillError | None = None
        tell, ended = anyio.create_memory_object_stream[str](AT_ONCE)
        async with tell, ended, anyio.create_task_group() as group:
            while failure is None:
                try:
                    leased, enabled = await anyio.to_thread.run_sync(self._lease, clock.now(), under_way)
                except ModelmillError as error:  # what is under way goes on
                    failure, leased, enabled = error, [], set()
                for delivery, target in leased:
                    group.start_soon(self._deliver, delivery, target, target.owner in enabled, tell)
                under_way.update(target.target_id for _, target in leased)
                count += len(leased)
                if not under_way:
                    return count
                with anyio.move_on_after(LOOK_S):
                    under_way -= Counter([await ended.receive()])
                while ended.statistics().current_buffer_used:
                    under_way -= Counter([ended.receive_nowait()])
        assert failure is not None
        raise failure

    def forget_old(self, moment: datetime) -> int:
        """Deletes messages that ended long ago, and the oldest if there are too many.

        Returns:
            How many were deleted.
        """
        with self.database.write() as conn:
            count = deliveries.forget_before(conn, to_text(moment - timedelta(days=KEEP_DAYS)))
            return count + deliveries.trim(conn, KEEP_MOST)

    def newest(self, owner: str, *, target_id: str = "", limit: int = SHOWN) -> list[Delivery]:
        """Returns the newest messages of a user, newest first.

        Args:
            owner: the user.
            target_id: only those to this target; empty: to all.
            limit: how many at most.
        """
        with self.database.read() as conn:
            return deliveries.newest(conn, owner, target_id=target_id, limit=limit)

    def get(self, owner: str, delivery_id: str) -> Delivery:
        """Returns a message.

        Raises:
            DeliveryNotFound: This user has none with this id.
        """
        with self.database.read() as conn:
            return _require(deliveries.get(conn, owner, delivery_id), delivery_id)

    def redeliver(self, owner: str, delivery_id: str) -> Delivery:
        """Send a message once more, whatever became of it, for another day. Its target is switched on.

        Raises:
            DeliveryNotFound: This user has none with this id.
        """
        at = to_text(clock.now())
        with self.database.write() as conn:
            delivery = _require(deliveries.get(conn, owner, delivery_id), delivery_id)
            deliveries.send_again(conn, delivery_id, at)
            targets.change(conn, delivery.target_id, is_enabled=True, problem="")
            note_change(conn, CHANGED)
        return replace(delivery, state=DeliveryState.PENDING, tries=0, due_at=at, patience_from=at, ended_at=None)

    def _switch_off_flooded(self) -> None:
        with self.database.read() as conn:
            flooded = deliveries.list_flooded(conn, MOST_WAITING)
        for target_id in flooded:
            problem = f"more than {MOST_WAITING} messages waited for it"
            with self.database.write() as conn:
                targets.change(conn, target_id, is_enabled=False, problem=problem)
                deliveries.give_up(conn, target_id, problem=problem, at=to_text(clock.now()))

    def _lease(
        self, moment: datetime, under_way: Mapping[str, int] = {}
    ) -> tuple[list[tuple[Delivery, Target]], Collection[str]]:
        """What is due, and which of its owners are enabled. under_way: the number of tries, by target."""
        self._switch_off_flooded()
        until = to_text(moment + timedelta(seconds=LEASE_S))
        limit = AT_ONCE - sum(under_way.values())
        busy = [target_id for target_id, number in under_way.items() if number >= OF_ONE_TARGET]
        with self.database.write() as conn:
            due = deliveries.lease_due(
                conn, to_text(moment), until=until, limit=limit, per_target=OF_ONE_TARGET, without=busy
            )
        return due, self.enabled_of({target.owner for _, target in due})

    async def _deliver(
        self, delivery: Delivery, target: Target, is_enabled: bool, tell: MemoryObjectSendStream[str]
    ) -> None:
        try:
            outcome = await self.senders.send(delivery, target) if is_enabled else DISABLED
        except Exception as error:  # an error with one message must not delay the others
            logger.exception("Message %s was not sent", delivery.delivery_id)
            outcome = Outcome(False, problem=f"a fault of this service: {type(error).__name__}")
        try:
            await anyio.to_thread.run_sync(partial(self._note, delivery, outcome, clock.now()))
        except ModelmillError as error:  # its lease ends, and it is tried again
            logger.warning("How message %s went is not noted: %s", delivery.delivery_id, error.message)
        tell.send_nowait(target.target_id)

    def _note(self, delivery: Delivery, outcome: Outcome, moment: datetime) -> None:
        state, due_at = after(delivery, outcome, moment)
        at = to_text(moment)
        with self.database.write() as conn:
            deliveries.note(conn, delivery, outcome, state=state, due_at=to_text(due_at), at=at)
            if outcome.is_gone:
                targets.change(conn, delivery.target_id, is_enabled=False, problem=outcome.problem)
                deliveries.give_up(conn, delivery.target_id, problem=outcome.problem, at=at)
        if not outcome.is_delivered:
            logger.info("Message %s is not taken: %s", delivery.delivery_id, outcome.problem)


def after(delivery: Delivery, outcome: Outcome, moment: datetime) -> tuple[DeliveryState, datetime]:
    """Returns the state of a message after a try, and when it is tried again."""
    if outcome.is_delivered:
        return DeliveryState.DELIVERED, moment
    due_at = moment + timedelta(seconds=max(PAUSE.of_try(delivery.tries), outcome.retry_after_s))
    is_over = due_at > from_text(delivery.patience_from) + timedelta(seconds=PATIENCE_S)
    return (DeliveryState.FAILED if is_over or outcome.is_final else DeliveryState.PENDING), due_at


def _require(delivery: Delivery | None, delivery_id: str) -> Delivery:
    if delivery is None:
        raise DeliveryNotFound(
            f"There is no message {delivery_id[:64]}.",
            hint="`modelmill notifications messages` or GET /notifications/deliveries lists the last ones.",
        )
    return delivery
