"""Bytes from the event loop to a thread: all of them, in order, never too many at a time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from app.kit.web import thread_stream
from app.kit.web.thread_stream import Abandoned, ThreadStream, hand_over
from tests.harness.until import PATIENCE_S

BATCH = thread_stream.BATCH_BYTES


def received(send: Callable[[ThreadStream[Any]], Any]) -> list[Any]:
    """What a thread gets of what the coroutine function sends. What the thread is raised is raised here."""

    async def both() -> list[Any]:
        channel: ThreadStream[Any] = ThreadStream()
        receiving = asyncio.create_task(asyncio.to_thread(lambda: list(channel)))
        await send(channel)
        return await asyncio.wait_for(receiving, PATIENCE_S)

    return asyncio.run(both())


def test_everything_arrives_in_order() -> None:
    async def send(channel: ThreadStream[int]) -> None:
        for number in range(1000):
            await channel.put(number, BATCH // 7)
        await channel.end()

    assert received(send) == list(range(1000))


def test_nothing_is_an_end_too() -> None:
    async def send(channel: ThreadStream[int]) -> None:
        await channel.end()

    assert received(send) == []


def test_a_failure_reaches_the_receiver_in_place_of_the_end() -> None:
    async def send(channel: ThreadStream[int]) -> None:
        await channel.put(1, BATCH)
        await channel.end(Abandoned("gone"))

    with pytest.raises(Abandoned, match="gone"):
        received(send)


def test_what_came_before_a_failure_is_received_before_it() -> None:
    got: list[int] = []

    async def both() -> None:
        channel: ThreadStream[int] = ThreadStream()

        def receive() -> None:
            got.extend(iter_until_failure(channel))

        receiving = asyncio.create_task(asyncio.to_thread(receive))
        await channel.put(1)
        await channel.put(2)
        await channel.end(Abandoned("gone"))
        await asyncio.wait_for(receiving, PATIENCE_S)

    def iter_until_failure(channel: ThreadStream[int]) -> list[int]:
        items = []
        with pytest.raises(Abandoned):
            for item in channel:
                items.append(item)  # what came before the failure must not be lost with it
        return items

    asyncio.run(both())
    assert got == [1, 2]


def test_a_sender_waits_for_a_receiver_that_is_slow() -> None:
    async def both() -> int:
        channel: ThreadStream[int] = ThreadStream()
        sent = 0

        async def send() -> None:
            nonlocal sent
            for number in range(100):
                await channel.put(number, BATCH)
                sent += 1
            await channel.end()

        sending = asyncio.create_task(send())
        for _ in range(200):
            await asyncio.sleep(0)
        before = sent
        got = await asyncio.to_thread(lambda: list(channel))
        await sending
        assert got == list(range(100))
        return before

    assert asyncio.run(both()) == thread_stream.MAX_BATCHES


def test_small_items_are_passed_on_together() -> None:
    async def both() -> int:
        channel: ThreadStream[bytes] = ThreadStream()
        for _ in range(1000):
            await channel.put(b"x" * 1000, 1000)
        passed_on = len(channel._batches)
        await channel.end()
        assert len(await asyncio.to_thread(lambda: list(channel))) == 1000
        return passed_on

    assert asyncio.run(both()) == 0


def test_a_sender_goes_on_when_the_receiver_has_closed() -> None:
    async def both() -> None:
        channel: ThreadStream[int] = ThreadStream()

        def receive_one() -> None:
            next(iter(channel))
            channel.close()

        receiving = asyncio.create_task(asyncio.to_thread(receive_one))
        for number in range(100):
            await asyncio.wait_for(channel.put(number, BATCH), PATIENCE_S)
        await asyncio.wait_for(channel.end(), PATIENCE_S)
        await receiving

    asyncio.run(both())


def test_a_sender_that_waits_for_room_goes_on_when_the_receiver_closes() -> None:
    async def both() -> None:
        channel: ThreadStream[int] = ThreadStream()
        for number in range(thread_stream.MAX_BATCHES):
            await channel.put(number, BATCH)
        waiting = asyncio.create_task(channel.put(99, BATCH))
        await asyncio.sleep(0)
        assert not waiting.done()
        await asyncio.to_thread(channel.close)
        await asyncio.wait_for(waiting, PATIENCE_S)

    asyncio.run(both())


def test_a_sender_that_gives_up_does_not_wait_for_room() -> None:
    async def both() -> None:
        channel: ThreadStream[int] = ThreadStream()
        for number in range(thread_stream.MAX_BATCHES):
            await channel.put(number, BATCH)
        await asyncio.wait_for(channel.end(Abandoned("gone")), PATIENCE_S)

    asyncio.run(both())


def test_a_receiver_that_came_first_sleeps_until_there_is_something() -> None:
    async def both() -> list[int]:
        channel: ThreadStream[int] = ThreadStream()
        has_begun = threading.Event()

        def receive() -> list[int]:
            has_begun.set()
            return list(channel)

        receiving = asyncio.create_task(asyncio.to_thread(receive))
        await asyncio.to_thread(has_begun.wait)
        await channel.put(7)
        await channel.end()
        return await asyncio.wait_for(receiving, PATIENCE_S)

    assert asyncio.run(both()) == [7]


async def pieces(count: int, *, failure: Exception | None = None) -> AsyncIterator[bytes]:
    for _ in range(count):
        yield b"x" * BATCH
    if failure is not None:
        raise failure


def test_what_a_thread_makes_of_the_chunks_comes_back() -> None:
    assert asyncio.run(hand_over(pieces(9), lambda chunks: sum(map(len, chunks)))) == 9 * BATCH


def test_a_receiver_that_gives_up_ends_the_sending() -> None:
    taken = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal taken
        while True:
            taken += 1
            yield b"x" * BATCH

    def refuse(chunks: Iterator[bytes]) -> None:
        next(chunks)
        raise ValueError("too large")

    with pytest.raises(ValueError, match="too large"):
        asyncio.run(asyncio.wait_for(hand_over(endless(), refuse), PATIENCE_S))
    assert taken >= 1


def test_a_sender_that_breaks_off_is_told_to_the_receiver_and_to_the_caller() -> None:
    told: list[str] = []

    def receive(chunks: Iterator[bytes]) -> None:
        try:
            for _ in chunks:
                pass
        except Abandoned as error:
            told.append(str(error))
            raise

    with pytest.raises(ConnectionError, match="gone"):
        asyncio.run(hand_over(pieces(2, failure=ConnectionError("gone")), receive))
    assert told == ["gone"]
