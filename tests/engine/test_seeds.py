"""The states of random number generators, where several sessions draw from them by turns."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from numpy.random import mtrand

from reactor_runtime.engine.seeds import SharedGenerators, resumed_by, seed_generators

Drawn = tuple[float, ...]


def draw() -> Drawn:
    # Normal numbers come in pairs, of which the generators keep the second.
    return np.random.normal(), np.random.random(), random.random(), random.gauss(0.0, 1.0)


def drawn_alone(seed: int, count: int) -> list[Drawn]:
    seed_generators(seed)
    return [draw() for _ in range(count)]


@pytest.fixture
def generators() -> Iterator[SharedGenerators]:
    bits = mtrand.get_bit_generator()
    yield SharedGenerators()
    mtrand.set_bit_generator(bits)


def test_sessions_that_draw_by_turns_have_the_numbers_that_each_has_alone(generators: SharedGenerators) -> None:
    alone = {seed: drawn_alone(seed, 30) for seed in (1, 2, 3)}
    turns = [seed for seed in alone for _ in range(30)]
    random.Random(29).shuffle(turns)
    for seed in alone:
        generators.begin_session(f"s-{seed}", seed)
    drawn: dict[int, list[Drawn]] = {seed: [] for seed in alone}
    for seed in turns:
        generators.enter(f"s-{seed}")
        drawn[seed].append(draw())
    assert drawn == alone


@pytest.mark.parametrize(
    "draw",
    [
        pytest.param(random.random, id="random"),
        pytest.param(np.random.random, id="numpy"),
        pytest.param(np.random.normal, id="normal"),
        pytest.param(lambda: pytest.importorskip("torch").rand(()).item(), id="torch"),
    ],
)
def test_sessions_without_a_seed_have_numbers_of_their_own(
    generators: SharedGenerators, draw: Callable[[], float]
) -> None:
    # Imports torch.
    draw()
    generators.begin_session("seeded", 5)
    drawn: list[float] = []
    for session in ("a", "b", "seeded"):
        generators.enter(session)
        drawn += draw(), draw()
    assert len(set(drawn)) == 6


def test_an_author_can_read_and_set_the_state_of_a_session(generators: SharedGenerators) -> None:
    generators.begin_session("a", 1)
    generators.begin_session("b", 2)
    generators.enter("a")
    bits, state = mtrand.get_bit_generator(), np.random.get_state()
    first = np.random.random()
    generators.enter("b")
    assert bits.state["state"]
    generators.enter("a")
    np.random.set_state(state)
    assert np.random.random() == first


def test_a_session_with_a_generator_of_its_author_keeps_it(generators: SharedGenerators) -> None:
    generators.begin_session("a", 1)
    generators.begin_session("b", 2)
    generators.enter("a")
    mtrand.set_bit_generator(np.random.PCG64(5))
    numbers = [np.random.normal()]
    generators.enter("b")
    np.random.random()
    generators.enter("a")
    numbers.append(np.random.normal())
    assert numbers == list(np.random.RandomState(np.random.PCG64(5)).normal(size=2))


def test_a_session_begins_after_one_with_a_generator_of_its_author(generators: SharedGenerators) -> None:
    alone = drawn_alone(2, 1)
    generators.begin_session("a", 1)
    mtrand.set_bit_generator(np.random.PCG64(5))
    generators.begin_session("b", 2)
    assert [draw()] == alone


def test_sessions_have_their_numbers_of_torch_by_turns(generators: SharedGenerators) -> None:
    torch = pytest.importorskip("torch")
    alone = torch.rand(2, generator=torch.Generator().manual_seed(1)).tolist()
    generators.begin_session("a", 1)
    drawn = [torch.rand(()).item()]
    generators.begin_session("b", 2)
    torch.rand(())
    generators.enter("a")
    assert [*drawn, torch.rand(()).item()] == alone


def test_the_states_of_generators_are_kept_for_sessions_that_run(generators: SharedGenerators) -> None:
    for number in range(5):
        generators.begin_session(f"s-{number}", number)
    for number in range(5):
        generators.end_session(f"s-{number}")
    generators.begin_session("last", 5)
    generators.end_session("last")
    assert len(generators._states) <= 1


def test_sessions_without_a_seed_have_one_generator_after_the_last_one_with_a_seed(
    generators: SharedGenerators,
) -> None:
    generators.begin_session("seeded", 1)
    generators.end_session("seeded")
    bits = mtrand.get_bit_generator()
    generators.enter("a")
    assert mtrand.get_bit_generator() is bits


async def test_work_of_a_session_continues_with_its_numbers_after_each_wait() -> None:
    done: list[str] = []

    async def work() -> str:
        for _ in range(2):
            await asyncio.sleep(0)
            done.append("worked")
        return "result"

    assert await resumed_by(lambda: done.append("resumed"), work()) == "result"
    assert done == ["resumed", "resumed", "worked", "resumed", "worked"]


async def test_an_error_that_ends_a_wait_is_raised_in_the_work_of_a_session() -> None:
    done: list[str] = []

    async def work() -> None:
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            done.append("cancelled")

    task = asyncio.ensure_future(resumed_by(lambda: done.append("resumed"), work()))
    await asyncio.sleep(0)
    task.cancel()
    await task
    assert done == ["resumed", "resumed", "cancelled"]
