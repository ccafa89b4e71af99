from __future__ import annotations

from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactor_runtime.ipc.credits import MOST_SESSIONS
from reactor_runtime.ipc.framing import HEAD, Framing, encode
from reactor_runtime.ipc.messages import (
    BundleFrame,
    BundleSound,
    ClientMedia,
    EventApplied,
    Message,
    MessageSent,
    StateChanged,
    ToEngine,
    ToServer,
)

KINDS: tuple[type, ...] = (*get_args(ToEngine), *get_args(ToServer))
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(texts, json_values, max_size=4)
numbers = st.lists(st.integers(0), max_size=3).map(tuple)
pictures = st.builds(
    BundleFrame, texts, st.integers(0), st.integers(-1), st.integers(1), st.integers(1), others_seqs=numbers
)
sounds = st.builds(BundleSound, texts, *[st.integers(0)] * 5, st.floats(allow_nan=False), others_seqs=numbers)
BY_TYPE: dict[str, st.SearchStrategy[Any]] = {
    "str": texts,
    "int": st.integers(),
    "bool": st.booleans(),
    "bytes": st.binary(max_size=200),
    "float": st.floats(allow_nan=False),
    "float | None": st.none() | st.floats(allow_nan=False),
    "dict[str, Any]": objects,
    "dict[str, Any] | None": st.none() | objects,
    "int | None": st.none() | st.integers(),
    "bytes | None": st.none() | st.binary(max_size=200),
    "str | None": st.none() | texts,
    "str | int | None": st.none() | texts | st.integers(),
    "dict[str, list[int]]": st.dictionaries(texts, st.lists(st.integers(), max_size=2), max_size=2),
    "list[dict[str, Any]]": st.lists(objects, max_size=3),
    "list[dict[str, str]]": st.lists(st.dictionaries(texts, texts, max_size=2), max_size=3),
    "tuple[str, dict[str, Any]] | None": st.none(),  # a list on the other side, see below
    "tuple[BundleFrame, ...]": st.lists(pictures, max_size=3).map(tuple),
    "tuple[int, ...]": st.lists(st.integers(), max_size=3).map(tuple),
    "tuple[float, ...]": st.lists(st.floats(allow_nan=False), max_size=3).map(tuple),
    "tuple[BundleSound, ...]": st.lists(sounds, max_size=2).map(tuple),
}


def instances(kind: type) -> st.SearchStrategy[Message]:
    # Those of a named tuple are references.
    names = {field: str(getattr(hint, "__forward_arg__", hint)) for field, hint in kind.__annotations__.items()}
    return st.builds(kind, **{field: BY_TYPE[name] for field, name in names.items()})


messages = st.one_of([instances(kind) for kind in KINDS])


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_kind_of_message_comes_back_equal(kind: type) -> None:
    @given(instances(kind), st.integers(0, MOST_SESSIONS - 1))
    def comes_back(message: Message, slot: int) -> None:
        assert list(Framing().feed(encode(message, slot))) == [(slot, message)]

    comes_back()


@given(st.lists(messages, max_size=6), st.lists(st.integers(1, 40), min_size=1))
def test_messages_come_whole_however_the_stream_is_chopped(sent: list[Message], sizes: list[int]) -> None:
    stream = b"".join(map(encode, sent))
    framing, start, chop = Framing(), 0, 0
    received: list[Message] = []
    while start < len(stream):
        end = start + sizes[chop % len(sizes)]
        received += [message for _, message in framing.feed(stream[start:end])]
        start, chop = end, chop + 1
    assert received == sent


def test_an_answer_keeps_the_message_its_handler_returned() -> None:
    ((_, answer),) = Framing().feed(encode(EventApplied("s", "c", 7, 1, ("progress", {"step": 3}))))
    assert isinstance(answer, EventApplied)
    assert answer.reply is not None
    kind, data = answer.reply
    assert (kind, data) == ("progress", {"step": 3})


def test_a_receiver_that_fails_at_one_message_loses_no_other() -> None:
    framing = Framing()
    stream = encode(StateChanged("s", {"a": 1})) + encode(MessageSent("s", "hello", {}))
    for _ in framing.feed(stream):
        break  # what a receiver that raises does to the generator
    assert list(framing.feed(b"")) == [(0, MessageSent("s", "hello", {}))]


def test_a_message_of_the_most_bytes_is_taken() -> None:
    media = ClientMedia("s", "camera", bytes(1000))
    stream = encode(media)
    assert list(Framing(len(stream) - HEAD.size).feed(stream)) == [(0, media)]


@pytest.mark.parametrize(
    "message",
    [ClientMedia("s", "camera", bytes(1000)), MessageSent("s", "hello", {"text": 1000 * "a"})],
    ids=["file", "text"],
)
def test_a_message_above_the_most_bytes_is_refused_at_its_head(message: Message) -> None:
    stream = encode(message)
    with pytest.raises(ValueError, match="is above"):
        list(Framing(len(stream) - HEAD.size - 1).feed(stream[: HEAD.size]))
