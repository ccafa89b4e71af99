from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactor_runtime.seam.nudge import SIZE, Nudge, Nudger, Place

PLACES = st.builds(Place, st.integers(-1, 2**40), st.integers(1, 4096), st.integers(1, 4096))


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with ours, theirs:
        yield ours, theirs


@given(st.integers(0, 2**63), st.integers(0, 2**63), st.integers(0, 2**31), PLACES)
def test_a_nudge_comes_out_as_it_went_in(life: int, moment: int, index: int, place: Place) -> None:
    nudge = Nudge(life, moment, index, place)
    assert Nudge.from_bytes(nudge.to_bytes()) == nudge


def test_a_nudger_says_of_which_life_it_is(ends: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = ends
    assert Nudger(theirs, 7).nudge(3, 1, Place(4096, 8, 10))
    assert Nudge.from_bytes(ours.recv(SIZE)) == Nudge(7, 3, 1, Place(4096, 8, 10))


def test_a_nudger_neither_waits_nor_fails_where_nobody_can_be_told(ends: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = ends
    nudger = Nudger(theirs, 1)
    count = 0
    while nudger.nudge(count, 0, Place(0, 8, 10)):
        count += 1
    assert count > 0
    ours.close()
    assert not nudger.nudge(count, 0, Place(0, 8, 10))
