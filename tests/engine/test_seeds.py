"""The states of random number generators, where several sessions draw from them by turns."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
from numpy.random import mtrand

from reactor_runtime.engine.seeds import SharedGenerators, seed_generators

Drawn = tuple[float, ...]


def draw() -> Drawn:
    # Normal numbers come in pairs, of which the generators keep the second.
    return np.random.normal(), np.random.random(), random.random(), random.gauss(0.0, 1.0)


def drawn_alone(seed: int, count: int) -> list[Drawn]:
    seed_generators(seed)
    return [draw() for _ in range(count)]


@pytest.fixture
def generators() -> SharedGenerators:
    return SharedGenerators()


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
    state = np.random.get_state()
    first = np.random.random()
    generators.enter("b")
    generators.enter("a")
    np.random.set_state(state)
    assert np.random.random() == first


def test_a_session_with_a_generator_of_its_author_keeps_it(generators: SharedGenerators) -> None:
    generators.begin_session("a", 1)
    generators.begin_session("b", 2)
    generators.enter("a")
    mtrand.set_bit_generator(np.random.PCG64(5))
    numbers = [np.random.random()]
    generators.enter("b")
    np.random.random()
    generators.enter("a")
    numbers.append(np.random.random())
    assert numbers == list(np.random.Generator(np.random.PCG64(5)).random(2))


def test_the_states_of_generators_are_kept_for_sessions_that_run(generators: SharedGenerators) -> None:
    for number in range(5):
        generators.begin_session(f"s-{number}", number)
        generators.end_session(f"s-{number}")
    assert len(generators._states) <= 1
