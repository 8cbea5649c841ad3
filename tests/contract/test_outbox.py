"""One suite over both databases: each message is leased by one process at a time, and sweeps keep their order."""

from __future__ import annotations

import threading
from datetime import timedelta

from app.kit import clock
from app.kit.clock import to_text
from app.kit.sql import Database
from app.notifications.model import DeliveryState, Kind
from app.notifications.service import NewTarget
from app.notifications.store import deliveries
from app.sweeps import store
from app.sweeps.model import Entry, EntryState, Sweep
from tests.harness.databases import database, empty, url
from tests.harness.notifications import failed_job, notifications_on

__all__ = ["database", "empty", "url"]
MANY = 30


def test_of_several_that_look_at_once_each_message_is_one_ones(database: Database) -> None:
    notifications = notifications_on(database)
    notifications.targets.add("ada", NewTarget(Kind.WEBHOOK, "https://example.org/hook"))
    for number in range(MANY):
        notifications.outbox.note(failed_job(job_id=str(number)))
    moment = clock.now() + timedelta(seconds=1)
    taken: list[str] = []
    begin = threading.Barrier(4)

    def take() -> None:
        begin.wait()
        for _ in range(MANY):
            with database.write() as conn:
                until = to_text(moment + timedelta(minutes=1))
                leased = deliveries.lease_due(conn, to_text(moment), until=until, limit=2, per_target=MANY)
            taken.extend(delivery.delivery_id for delivery, _ in leased)

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(taken) == len(set(taken)) == MANY


def test_a_target_with_many_messages_keeps_no_other_waiting(database: Database) -> None:
    notifications = notifications_on(database)
    notifications.targets.add("ada", NewTarget(Kind.WEBHOOK, "https://example.org/slow"))
    for number in range(MANY):
        notifications.outbox.note(failed_job(job_id=str(number)))
    other = notifications.targets.add("bob", NewTarget(Kind.WEBHOOK, "https://example.org/hook"))
    notifications.outbox.note(failed_job("bob", "bobs"))
    moment = clock.now() + timedelta(seconds=1)
    with database.write() as conn:
        leased = deliveries.lease_due(conn, to_text(moment), until=to_text(moment), limit=5, per_target=4)
    assert [target.target_id for _, target in leased].count(other.target_id) == 1


def test_what_piles_up_for_a_target_switches_it_off_and_what_has_ended_is_kept_in_part(database: Database) -> None:
    notifications = notifications_on(database)
    target = notifications.targets.add("ada", NewTarget(Kind.WEBHOOK, "https://example.org/hook"))
    for number in range(4):
        notifications.outbox.note(failed_job(job_id=str(number)))
    with database.write() as conn:
        assert deliveries.list_flooded(conn, 4) == []
        assert deliveries.list_flooded(conn, 3) == [target.target_id]
        assert deliveries.trim(conn, 0) == 0, "none has ended"
        deliveries.give_up(conn, target.target_id, problem="gone", at=to_text(clock.now()))
        assert deliveries.trim(conn, 3) == 1


def test_a_user_with_many_sweeps_keeps_no_others_waiting(database: Database) -> None:
    notifications_on(database)
    with database.write() as conn:
        for number, owner in enumerate(("ada", "bob")):
            sweep = Sweep(f"{number}" * 32, owner, owner, (), f"2026-11-0{number + 1}T00:00:00.000Z")
            parts = [Entry(sweep.sweep_id, at, f"{owner}-{at}", "m", "a", "b", f"v{at}", {}) for at in range(5)]
            store.add(conn, sweep, parts)
        assert [entry.job_id for _, entry in store.pending(conn, 2)] == ["ada-0", "ada-1", "bob-0", "bob-1"]


def test_a_message_sent_again_has_all_patience_anew(database: Database) -> None:
    notifications = notifications_on(database)
    target = notifications.targets.add("ada", NewTarget(Kind.CHAT, "https://example.org/key"))
    notifications.outbox.note(failed_job())
    (first,) = notifications.outbox.newest("ada", target_id=target.target_id)
    with database.write() as conn:
        deliveries.give_up(conn, target.target_id, problem="gone", at=to_text(clock.now()))
    assert notifications.outbox.get("ada", first.delivery_id).state is DeliveryState.FAILED
    again = notifications.outbox.redeliver("ada", first.delivery_id)
    assert (again.state, again.tries, again.body) == (DeliveryState.PENDING, 0, first.body)
    assert again.patience_from >= first.patience_from


def test_sweeps_come_newest_first_page_by_page_and_their_entries_in_order(database: Database) -> None:
    notifications_on(database)
    with database.write() as conn:
        for number in range(3):
            sweep = Sweep(f"{number}" * 32, "ada", f"sweep {number}", ("t",), f"2026-11-0{number + 1}T00:00:00.000Z")
            parts = [
                Entry(sweep.sweep_id, at, f"job-{number}-{at}", "m", "a", "b", f"v{at}", {"toolchain": "host"})
                for at in (1, 0)
            ]
            store.add(conn, sweep, parts)
        first, second = store.page(conn, "ada", before=None, limit=2)
        (last,) = store.page(conn, "ada", before=(second.created_at, second.sweep_id), limit=2)
        assert [sweep.name for sweep in (first, second, last)] == ["sweep 2", "sweep 1", "sweep 0"]
        entry = store.entries_of(conn, last.sweep_id)[0]
        assert (entry.position, entry.options) == (0, {"toolchain": "host"})
        assert store.pending(conn, 10)[0][1] == entry
        assert store.change(conn, entry, EntryState.SUBMITTED)
        assert not store.change(conn, entry, EntryState.CANCELLED), "it is not pending any more"
        store.note_result(conn, entry.job_id, {"status": "COMPLETED"})
        assert store.states(conn, [last.sweep_id]) == {last.sweep_id: {"ENDED": 1, "PENDING": 1}}
