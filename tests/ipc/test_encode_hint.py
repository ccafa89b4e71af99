from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactor_runtime.ipc.encode_hint import SIZE, EncodeHint, EncodeHinter, HintedBand

PLACES = st.builds(HintedBand, st.integers(-1, 2**40), st.integers(1, 4096), st.integers(1, 4096))


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with ours, theirs:
        yield ours, theirs


@given(st.integers(0, 2**63), st.integers(0, 2**63), st.integers(0, 2**31), PLACES)
def test_a_hint_survives_encoding_and_decoding(engine_run: int, bundle: int, index: int, place: HintedBand) -> None:
    hint = EncodeHint(engine_run, bundle, index, place)
    assert EncodeHint.from_bytes(hint.to_bytes()) == hint


def test_a_hint_has_the_number_of_its_engine_run(ends: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = ends
    assert EncodeHinter(theirs, 7).hint(3, 1, HintedBand(4096, 8, 10))
    assert EncodeHint.from_bytes(ours.recv(SIZE)) == EncodeHint(7, 3, 1, HintedBand(4096, 8, 10))


def test_a_hint_without_room_is_not_sent_and_does_not_raise(ends: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = ends
    hinter = EncodeHinter(theirs, 1)
    count = 0
    while hinter.hint(count, 0, HintedBand(0, 8, 10)):
        count += 1
    assert count > 0
    ours.close()
    assert not hinter.hint(count, 0, HintedBand(0, 8, 10))
