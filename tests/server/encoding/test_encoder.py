from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import partial
from typing import Any

import numpy as np
import pytest

from reactor_runtime.ipc.encode_hint import EncodeHinter, HintedBand
from reactor_runtime.ipc.ring import RingReader, RingWriter, create_memory
from reactor_runtime.media import jpeg
from reactor_runtime.server.encoding.encoder import BandsAhead, Encoder, HintedBundle
from tests.fakes import written
from tests.timeouts import TIMEOUT_S


class Engine:
    """An engine's end of the encoder, with the shared memory of its frames."""

    def __init__(self, encoder: Encoder) -> None:
        self.encoder = encoder
        self.engine_run = encoder.next_engine_run()
        self._memory = create_memory()
        self.writer = RingWriter(self._memory)
        encoder.add_engine(self.engine_run, RingReader(self._memory, self.engine_run))
        self.hinter = EncodeHinter(encoder.engines_end, self.engine_run)

    def place(self, bundle: int, value: int) -> HintedBand:
        """Write a frame of one colour into shared memory."""
        (offset,) = written(self.writer, bundle, [np.full((16, 24, 3), value, np.uint8)])
        return HintedBand(offset, 16, 24)

    def hinted(self, bundle: int, count: int = 1) -> HintedBundle:
        return HintedBundle((self.engine_run, bundle), count)

    def close(self) -> None:
        self.encoder.remove_engine(self.engine_run)
        os.close(self._memory)


@pytest.fixture
def encoder() -> Iterator[Encoder]:
    encoder = Encoder()
    yield encoder
    encoder.close()
    assert not any(thread.is_alive() for thread in encoder.threads)


@pytest.fixture
def engine(encoder: Encoder) -> Iterator[Engine]:
    engine = Engine(encoder)
    yield engine
    engine.close()


async def submitted(
    encoder: Encoder, job: Callable[[BandsAhead | None], Any], hinted: HintedBundle | None = None
) -> Any:
    arrived: asyncio.Future[Future[Any]] = asyncio.get_running_loop().create_future()
    encoder.submit(job, arrived.set_result, hinted)
    return (await asyncio.wait_for(arrived, TIMEOUT_S)).result()


def outcome(encoder: Encoder, job: Callable[[BandsAhead | None], Any], hinted: HintedBundle | None = None) -> Any:
    return asyncio.run(submitted(encoder, job, hinted))


def fill(sock: socket.socket) -> None:
    with contextlib.suppress(BlockingIOError):
        while True:
            sock.send(b"", socket.MSG_DONTWAIT)


def same(value: int, _: BandsAhead | None) -> int:
    return value


def given(ahead: BandsAhead | None) -> BandsAhead | None:
    return ahead


def shades(ahead: BandsAhead) -> list[int]:
    return [int(jpeg.decode(band.file)[8, 12, 0]) for band in ahead]


def test_jobs_run_on_a_thread_and_end_on_the_loop(encoder: Encoder) -> None:
    assert outcome(encoder, lambda _: 6 * 7) == 42


def test_an_error_in_a_job_is_its_outcome(encoder: Encoder) -> None:
    def job(_: BandsAhead | None) -> None:
        raise ValueError("no picture")

    with pytest.raises(ValueError, match="no picture"):
        outcome(encoder, job)
    assert outcome(encoder, lambda _: "the thread lives") == "the thread lives"


def test_many_jobs_at_once_all_finish(encoder: Encoder) -> None:
    async def scene() -> None:
        results = await asyncio.gather(*(submitted(encoder, partial(same, n)) for n in range(2000)))
        assert results == list(range(2000))

    asyncio.run(scene())


def test_a_job_gets_the_bands_encoded_before_it_was_submitted(encoder: Encoder, engine: Engine) -> None:
    assert engine.hinter.hint(1, 0, engine.place(1, 200))
    assert engine.hinter.hint(1, 1, HintedBand(-1, 16, 24))
    ahead = outcome(encoder, given, engine.hinted(1, 2))
    assert shades(ahead) == [200, 0]
    assert all(band.work.began <= band.work.ended for band in ahead)


def test_a_job_submitted_first_waits_for_all_hinted_bands(encoder: Encoder, engine: Engine) -> None:
    async def scene() -> None:
        waiting = asyncio.ensure_future(submitted(encoder, given, engine.hinted(1, 2)))
        assert await submitted(encoder, lambda _: "others go on") == "others go on"
        for index, place in ((1, engine.place(1, 90)), (0, engine.place(2, 30))):
            assert not waiting.done()
            engine.hinter.hint(1, index, place)
            await submitted(encoder, given)
        assert shades(await waiting) == [30, 90]

    asyncio.run(scene())


def test_an_unreadable_band_leaves_all_bands_to_the_job(encoder: Encoder, engine: Engine) -> None:
    engine.hinter.hint(1, 0, engine.place(1, 90))
    engine.hinter.hint(1, 1, HintedBand(1 << 40, 16, 24))
    assert outcome(encoder, given, engine.hinted(1, 2)) is None


def test_an_unreadable_frame_is_left_to_its_job(encoder: Encoder, engine: Engine) -> None:
    engine.hinter.hint(1, 0, HintedBand(1 << 40, 16, 24))
    assert outcome(encoder, given, engine.hinted(1)) is None


def test_hints_of_a_removed_engine_are_ignored(encoder: Encoder, engine: Engine) -> None:
    place = engine.place(1, 90)
    encoder.remove_engine(engine.engine_run)
    engine.hinter.hint(1, 0, place)
    assert outcome(encoder, given, engine.hinted(1)) is None


def test_jobs_submitted_long_after_their_hints_all_finish(encoder: Encoder, engine: Engine) -> None:
    many = 200  # a model with a large buffer_size, or many models, while the server's loop is held up

    async def scene() -> None:
        place = engine.place(0, 90)
        for bundle in range(many):
            assert engine.hinter.hint(bundle, 0, place)
            await submitted(encoder, given)
        found = await asyncio.gather(*(submitted(encoder, given, engine.hinted(bundle)) for bundle in range(many)))
        assert [shades(ahead) for ahead in found] == [[90]] * many
        assert not encoder.unclaimed

    asyncio.run(scene())


def test_unclaimed_bands_are_dropped_with_their_engine(encoder: Encoder, engine: Engine) -> None:
    async def scene() -> None:
        place = engine.place(0, 90)
        for bundle in range(10):
            assert engine.hinter.hint(bundle, 0, place)
            await submitted(encoder, given)
        encoder.remove_engine(engine.engine_run)
        assert not encoder.unclaimed
        engine.hinter.hint(10, 0, place)
        for _ in encoder.threads:
            await submitted(encoder, given)
        assert not encoder.unclaimed

    asyncio.run(scene())


def test_a_full_queue_of_hints_loses_no_job(encoder: Encoder) -> None:
    async def scene() -> None:
        hold = asyncio.Event()
        loop = asyncio.get_running_loop()
        began = [asyncio.Event() for _ in encoder.threads]

        def busy(event: asyncio.Event, _: BandsAhead | None) -> None:
            loop.call_soon_threadsafe(event.set)
            asyncio.run_coroutine_threadsafe(hold.wait(), loop).result(TIMEOUT_S)

        blocked = [asyncio.ensure_future(submitted(encoder, partial(busy, event))) for event in began]
        for event in began:
            await asyncio.wait_for(event.wait(), TIMEOUT_S)
        fill(encoder.engines_end)
        waiting = [asyncio.ensure_future(submitted(encoder, partial(same, n))) for n in range(20)]
        await asyncio.sleep(0)
        hold.set()
        assert await asyncio.gather(*waiting) == list(range(20))
        await asyncio.gather(*blocked)

    asyncio.run(scene())
