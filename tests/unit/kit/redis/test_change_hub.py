from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from app.kit.redis import change_hub
from app.kit.redis.change_hub import ChangeHub, any_of, changed
from tests.harness.valkey import Valkey

PATIENCE_S = 120.0


@contextlib.asynccontextmanager
async def listening(valkey: Valkey) -> AsyncIterator[ChangeHub]:
    """A hub that has made its subscription."""
    hub = ChangeHub(valkey.url(0))
    with hub.watch("the subscription") as flag:
        task = asyncio.create_task(hub.run())
        assert await changed(flag, PATIENCE_S)
    yield hub
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def subscribed(valkey: Valkey) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not valkey.client.pubsub_numpat():
            await asyncio.sleep(0.01)


def notify(valkey: Valkey, key: str) -> None:
    valkey.client.publish(f"nudge:{key}", 1)


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(scenario())  # type: ignore[arg-type]


def test_a_change_wakes_every_watcher_of_the_record_and_no_other(valkey: Valkey) -> None:
    async def scenario() -> None:
        async with listening(valkey) as hub:
            with hub.watch("job:1") as one, hub.watch("job:1") as two, hub.watch("job:2") as other:
                notify(valkey, "job:1")
                assert await changed(one, PATIENCE_S)
                assert await changed(two, PATIENCE_S)
                notify(valkey, "job:2")
                assert await changed(other, PATIENCE_S)
                assert not one.is_set()

    run(scenario)


def test_one_flag_hears_of_several_records_and_of_all_of_a_kind(valkey: Valkey) -> None:
    async def scenario() -> None:
        async with listening(valkey) as hub:
            with hub.watch("sweep:1", any_of("job")) as flag, hub.watch("sweep:2") as other:
                for key in ("sweep:1", "job:1", "job:2"):
                    notify(valkey, key)
                    assert await changed(flag, PATIENCE_S), key
                assert not other.is_set()
                assert hub.viewers == 2
            assert not hub.viewers

    run(scenario)


def test_many_changes_are_one_to_a_slow_watcher(valkey: Valkey) -> None:
    async def scenario() -> None:
        async with listening(valkey) as hub:
            with hub.watch("job:1") as slow, hub.watch("job:end") as end:
                for _ in range(5):
                    notify(valkey, "job:1")
                notify(valkey, "job:end")
                assert await changed(end, PATIENCE_S)
                assert await changed(slow, PATIENCE_S)
                assert not slow.is_set()

    run(scenario)


def test_without_a_change_a_watcher_waits_no_longer_than_it_wants(valkey: Valkey) -> None:
    async def scenario() -> None:
        async with listening(valkey) as hub:
            with hub.watch("job:1") as flag:
                assert not await changed(flag, 0.05)

    run(scenario)


def test_a_lost_connection_wakes_everybody_for_something_may_have_been_missed(
    own_valkey: Valkey, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_hub, "RECONNECT_S", 0.05)

    async def scenario() -> None:
        async with listening(own_valkey) as hub:
            with hub.watch("job:1") as one, hub.watch("job:2") as two:
                own_valkey.kill()
                assert await changed(one, PATIENCE_S)
                assert await changed(two, PATIENCE_S)
                own_valkey.start()

    run(scenario)


def test_after_a_lost_connection_changes_are_heard_again(own_valkey: Valkey, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_hub, "RECONNECT_S", 0.05)

    async def scenario() -> None:
        async with listening(own_valkey) as hub:
            with hub.watch("job:1") as flag:
                own_valkey.kill()
                own_valkey.start()
                await subscribed(own_valkey)
                notify(own_valkey, "job:1")
                assert await changed(flag, PATIENCE_S)

    run(scenario)


def test_a_connection_that_was_cut_and_mended_at_once_wakes_everybody_too(valkey: Valkey) -> None:
    async def scenario() -> None:
        async with listening(valkey) as hub:
            with hub.watch("job:1") as flag:
                valkey.client.client_kill_filter(_type="pubsub")
                assert await changed(flag, PATIENCE_S)
                await subscribed(valkey)

    run(scenario)


def test_who_has_stopped_watching_is_forgotten(valkey: Valkey) -> None:
    hub = ChangeHub(valkey.url(0))
    with hub.watch("job:1"), hub.watch("job:1"):
        assert hub.viewers == 2
    assert hub.viewers == 0
    assert not hub._flags


def test_what_viewers_share_is_made_once_for_each_change(valkey: Valkey, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_hub, "SHARED_FOR_S", PATIENCE_S)
    made: list[int] = []

    def make() -> int:
        made.append(len(made))
        return made[-1]

    async def scenario() -> None:
        async with listening(valkey) as hub:
            with hub.watch("job:1") as one, hub.watch("job:1") as two:
                first = [await hub.shared("job:1", "ann", make) for _ in range(3)]
                notify(valkey, "job:1")
                assert await changed(one, PATIENCE_S)
                assert await changed(two, PATIENCE_S)
                second = [await hub.shared("job:1", "ann", make) for _ in range(3)]
            assert (first, second) == ([0, 0, 0], [1, 1, 1])

    run(scenario)


def test_users_do_not_share(valkey: Valkey) -> None:
    async def scenario() -> None:
        async with listening(valkey) as hub:
            with hub.watch("job:1"):
                assert await hub.shared("job:1", "ann", lambda: "hers") == "hers"
                assert await hub.shared("job:1", "bob", lambda: "his") == "his"

    run(scenario)


def test_what_cannot_be_made_is_an_error_to_every_viewer(valkey: Valkey) -> None:
    def make() -> None:
        raise RuntimeError("no")

    async def scenario() -> None:
        async with listening(valkey) as hub:
            with hub.watch("job:1"):
                for _ in range(2):
                    with pytest.raises(RuntimeError, match="no"):
                        await hub.shared("job:1", "ann", make)

    run(scenario)
