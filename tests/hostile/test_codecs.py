"""The same hostile messages without a socket: whatever comes is read, or refused in our own words."""

from __future__ import annotations

import json
from collections import Counter
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from reactor_runtime.errors import WireError
from reactor_runtime.media import jpeg, wav
from reactor_runtime.wire.codec import ClientMessage, decode_text, encode_text
from reactor_runtime.wire.containers import detach
from reactor_runtime.wire.media_header import MediaHeader
from reactor_runtime.wire.messages import Event
from tests.hostile.grammar import file, hostile, message

randoms = st.randoms(use_true_random=False)


def read_text(text: str) -> ClientMessage | WireError:
    try:
        return decode_text(text)
    except WireError as error:
        return error


def read_file(data: bytes) -> MediaHeader | WireError | None:
    try:
        header, plain = detach(data)
        read = jpeg.read_header if plain[:2] == b"\xff\xd8" else wav.read_header
        read(plain)
    except WireError as error:
        return error
    return header


@given(randoms)
def test_a_text_is_a_message_or_a_short_error_that_can_be_sent(random: Random) -> None:
    came = read_text(message(random))
    if isinstance(came, WireError):
        assert came.code in ("invalid_json", "invalid_message")
        assert len(came.message) < 300
        assert json.loads(encode_text("reactor.error", {"message": came.message}, came.id))
    if isinstance(came, Event):
        assert isinstance(json.loads(came.data_json.encode()), dict)


@given(randoms)
def test_a_file_can_be_read_or_is_bad_media(random: Random) -> None:
    came = read_file(file(random))
    assert not isinstance(came, WireError) or came.code == "bad_media"


def test_a_seed_stands_for_the_same_messages_for_ever() -> None:
    assert hostile(50, 3) == hostile(50, 3)
    assert len(set(hostile(1000, 3))) > 900


def test_hostile_messages_are_of_every_sort() -> None:
    """Some have to get through to the model, or nothing behind the codec is tried."""
    came = [read_text(said) for said in hostile(1500, 4) if isinstance(said, str)]
    sorts = Counter(each.code if isinstance(each, WireError) else type(each).__name__ for each in came)
    assert min(sorts[sort] for sort in ("Event", "Ping", "View", "Ack", "invalid_json", "invalid_message")) > 5
