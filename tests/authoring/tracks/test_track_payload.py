"""An `Output` made with a TrackPayload has the array as its field, and keeps the metadata beside it."""

from __future__ import annotations

import copy
import inspect
import pickle
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from reactor_runtime import Output, TrackPayload, Video
from reactor_runtime.authoring.tracks.tracks import metadata_of
from reactor_runtime.errors.hints import hint_for

FRAME = np.zeros((2, 2, 3), np.uint8)
PAYLOAD = TrackPayload(FRAME, metadata={"a": 1})


class Whole(Output):
    main_video: Video
    depth: Video
    label: object


@dataclass(frozen=True)
class Frozen(Output):
    main_video: Video


@dataclass(slots=True)
class Slotted(Output):
    main_video: Video


@dataclass(kw_only=True)
class Child(Whole):
    extra: Video


class OwnInit(Output):
    main_video: Video

    def __init__(self, frame: Any) -> None:
        self.main_video = frame


class Checked(Output):
    main_video: Video

    def __post_init__(self) -> None:
        self.seen = self.main_video


def test_a_payload_is_frozen_and_compared_by_identity() -> None:
    assert PAYLOAD.metadata == {"a": 1}
    assert TrackPayload(FRAME, metadata={"a": 1}) != PAYLOAD
    assert len({PAYLOAD, PAYLOAD, TrackPayload(FRAME)}) == 2
    with pytest.raises(AttributeError):
        PAYLOAD.data = None  # type: ignore[misc]
    with pytest.raises(TypeError):
        TrackPayload(FRAME, {"a": 1})  # type: ignore[call-arg]


@pytest.mark.parametrize(
    "made",
    [Frozen(PAYLOAD), Slotted(PAYLOAD), OwnInit(PAYLOAD), Checked(PAYLOAD), Whole(PAYLOAD, FRAME, 1)],
    ids=lambda made: type(made).__name__,
)
def test_the_field_is_the_array_and_the_metadata_is_beside_it(made: Any) -> None:
    assert made.main_video is FRAME
    assert metadata_of(made) == {"main_video": {"a": 1}}
    assert metadata_of(type(made)(PAYLOAD.data, *([FRAME, 1] if isinstance(made, Whole) else []))) == {}


def test_each_track_of_a_class_and_its_parents_takes_a_payload() -> None:
    made = Child(main_video=PAYLOAD, depth=TrackPayload(FRAME, metadata=b"x"), extra=TrackPayload(FRAME), label=PAYLOAD)
    assert made.main_video is made.depth is made.extra is FRAME
    assert made.label is PAYLOAD
    assert metadata_of(made) == {"main_video": {"a": 1}, "depth": b"x"}


def test_copies_keep_the_metadata() -> None:
    for made in (Frozen(PAYLOAD), Whole(PAYLOAD, FRAME, 1)):
        copied: Any
        for copied in (copy.copy(made), pickle.loads(pickle.dumps(made))):
            assert metadata_of(copied) == {"main_video": {"a": 1}}
            assert np.array_equal(copied.main_video, FRAME)


def test_an_unknown_field_has_the_hint_of_any_other_call() -> None:
    Frozen(PAYLOAD)
    with pytest.raises(TypeError) as raised:
        Frozen(video=FRAME)  # type: ignore[call-arg]
    assert hint_for(raised.value) == "did you mean main_video?"


def test_the_signature_is_that_of_the_fields() -> None:
    Whole(FRAME, FRAME, 1)
    assert list(inspect.signature(Whole).parameters) == ["main_video", "depth", "label"]
    with pytest.raises(TypeError, match="missing 2 required positional arguments: 'depth'"):
        Whole(FRAME)  # type: ignore[call-arg]
