from __future__ import annotations

import json
import math
import re
from typing import Any

import numpy as np
import pytest

from reactor_runtime.authoring.contract import Contract
from reactor_runtime.engine.output.unpack import ByTrack, Unpack
from reactor_runtime.interface import Audio, InputState, Output, ReactorPipeline, TrackPayload, Video
from reactor_runtime.media.metadata import MOST_BYTES, metadata_text
from reactor_runtime.wire.media_header import MediaHeader
from tests.engine.rig import Picture, batch, frame


class State(InputState):
    pass


class Both(Output):
    video: Video
    audio: Audio


class Labelled(Output):
    video: Video
    label: str


class Alien(Output):
    video: Video


class OneTrack(ReactorPipeline):
    state: State
    output: Picture


class TwoTracks(ReactorPipeline):
    state: State
    output: Both


class TwoOutputs(ReactorPipeline):
    state: State
    output: Picture | Both


class WithLabel(ReactorPipeline):
    state: State
    output: Labelled


def unpack(model: type[ReactorPipeline], output: object) -> list[dict[str, Any]]:
    bundles = Unpack(Contract.of(model))(output)
    return [{track.name: payload for track, payload in bundle.items()} for bundle in bundles]


def test_a_raw_frame_is_the_only_track_s() -> None:
    (bundle,) = unpack(OneTrack, frame(3))
    assert list(bundle) == ["video"]
    assert (bundle["video"] == 3).all()


def test_a_batch_is_as_many_moments() -> None:
    assert [int(bundle["video"][0, 0, 0]) for bundle in unpack(OneTrack, Picture(video=batch(1, 2, 3)))] == [1, 2, 3]


def test_fields_that_are_no_tracks_are_not_sent() -> None:
    (bundle,) = unpack(WithLabel, Labelled(video=frame(1), label="hello"))
    assert list(bundle) == ["video"]


def test_several_outputs_may_be_mixed() -> None:
    assert list(unpack(TwoOutputs, Picture(video=frame(1)))[0]) == ["video"]
    sound = np.zeros(4, np.int16)
    assert list(unpack(TwoOutputs, Both(video=frame(1), audio=sound))[0]) == ["video", "audio"]


class Trackless(Output):
    note: str = ""


@pytest.mark.parametrize("output", [Output(), Trackless()], ids=["Output", "subclass"])
def test_an_output_without_tracks_shows_nothing(output: Output) -> None:
    assert not any(unpack(OneTrack, output))


class WithTrackless(ReactorPipeline):
    state: State
    output: Picture | Trackless


def test_an_output_without_tracks_does_not_make_a_raw_frame_ambiguous() -> None:
    assert list(unpack(WithTrackless, frame(1))[0]) == ["video"]


def test_a_frame_with_long_sound_is_one_bundle() -> None:
    (bundle,) = unpack(TwoTracks, Both(video=frame(1), audio=np.zeros(10 * 48_000, np.int16)))
    assert bundle["audio"].shape == (1, 10 * 48_000)


class Seats(ReactorPipeline):
    state: State
    output: Picture
    seats: Any = 2


def by_key(output: object) -> list[dict[str, tuple[int, str]]]:
    """Return the level of each frame of two seats, and its metadata, by the keys of the tracks."""
    return [
        {
            track.key: (int(array[0, 0, 0]), bundle.beside.metadata.get(track.key, ""))
            for track, array in bundle.arrays.items()
        }
        for bundle in Unpack(Contract.of(Seats))(output)
    ]


def test_each_seat_gets_its_frames_with_their_metadata() -> None:
    first, second = TrackPayload(frame(1), metadata={"n": 1}), TrackPayload(frame(2), metadata={"n": 2})
    one, two = (1, '{"n":1}'), (2, '{"n":2}')
    assert by_key([first, second]) == [{"video@0": one, "video@1": two}]
    assert by_key([None, Picture(video=second)]) == [{"video@1": two}]
    assert by_key(first) == [{"video": one}]


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_list_has_one_output_for_each_seat(count: int) -> None:
    with pytest.raises(ValueError, match=f"got a list of {count} outputs, and the session has 2 seats"):
        by_key([frame(1)] * count)


def test_a_list_is_no_output_without_seats() -> None:
    with pytest.raises(TypeError, match="video: got list"):
        unpack(OneTrack, [frame(1)])


@pytest.mark.parametrize("model", [TwoTracks, TwoOutputs])
def test_a_raw_frame_for_several_tracks_is_refused(model: type[ReactorPipeline]) -> None:
    with pytest.raises(TypeError, match="a raw frame needs exactly one Output with one track, this model has"):
        unpack(model, frame(1))


def test_an_output_of_another_model_is_refused() -> None:
    with pytest.raises(TypeError, match="Alien is not an output of this model; it declares: Picture; import Alien by"):
        unpack(OneTrack, Alien(video=frame(1)))


@pytest.mark.parametrize(
    ("payload", "error", "words"),
    [
        (None, TypeError, "video: got NoneType; frames are uint8"),
        (np.zeros((2, 2, 3)), TypeError, "video: got float64 (2, 2, 3) from 0 to 0; frames are uint8 0..255: use"),
        (np.zeros((2, 2), np.uint8), ValueError, "video: got uint8 (2, 2);"),
        (np.zeros((2, 2, 4), np.uint8), ValueError, "drop the alpha channel"),
        (np.zeros((0, 2, 3), np.uint8), ValueError, "it is empty"),
        (np.zeros((4097, 1, 3), np.uint8), ValueError, "at most 4096x4096"),
        ([[1, 2, 3]], TypeError, "video: got list"),
    ],
    ids=["None", "floats", "gray", "alpha", "empty", "too large", "list"],
)
def test_what_cannot_be_shown_names_the_track_what_came_and_the_fix(
    payload: Any, error: type[Exception], words: str
) -> None:
    with pytest.raises(error) as raised:
        unpack(OneTrack, Picture(video=payload))
    assert words in str(raised.value)


def test_wrong_sound_names_its_track() -> None:
    with pytest.raises(TypeError, match=r"audio: got float32 \(480,\); sound is int16"):
        unpack(TwoTracks, Both(video=frame(1), audio=np.zeros(480, np.float32)))


def test_tensors_are_taken() -> None:
    torch = pytest.importorskip("torch")
    (bundle,) = unpack(OneTrack, torch.full((2, 2, 3), 7, dtype=torch.uint8))
    assert (bundle["video"] == 7).all()
    with pytest.raises(TypeError, match=r"video: got torch.float32 \(2, 2, 3\)"):
        unpack(OneTrack, torch.zeros((2, 2, 3)))


class Stereo(Output):
    left: Video
    right: Video
    audio: Audio


class Eyes(ReactorPipeline):
    state: State
    output: Stereo


def metadata(model: type[ReactorPipeline], output: object) -> list[dict[str, Any]]:
    """Return the metadata of each bundle, by track."""
    bundles = Unpack(Contract.of(model))(output)
    return [{track: json.loads(text) for track, text in bundle.beside.metadata.items()} for bundle in bundles]


SOUND = np.zeros(12, np.int16)


@pytest.mark.parametrize(
    ("payload", "found"),
    [
        (frame(1), [{}]),
        (TrackPayload(frame(1)), [{}]),
        (
            TrackPayload(frame(1), metadata={"pose": [1.5, None], "é": "ü"}),
            [{"video": {"pose": [1.5, None], "é": "ü"}}],
        ),
        (TrackPayload(frame(1), metadata={}), [{"video": {}}]),
        (TrackPayload(frame(1), metadata=b"\x00\xff"), [{"video": {"b": "AP8="}}]),
        (TrackPayload(batch(1, 2), metadata={"n": 1}), [{"video": {"n": 1}}, {"video": {"n": 1}}]),
        (
            TrackPayload(batch(1, 2, 3), metadata=[{"n": 1}, None, b"x"]),
            [{"video": {"n": 1}}, {}, {"video": {"b": "eA=="}}],
        ),
        (TrackPayload(batch(1)), [{}]),
        (TrackPayload(batch(1), metadata=[{"n": 1}]), [{"video": {"n": 1}}]),
    ],
)
@pytest.mark.parametrize("as_output", [False, True], ids=["raw", "output"])
def test_metadata_goes_with_each_frame(payload: object, found: list[dict[str, Any]], as_output: bool) -> None:
    assert metadata(OneTrack, Picture(video=payload) if as_output else payload) == found


def test_metadata_of_a_single_frame_goes_with_it_beside_each_frame_of_a_batch() -> None:
    output = Stereo(
        left=TrackPayload(batch(1, 2), metadata=[{"n": 1}, {"n": 2}]),
        right=TrackPayload(frame(3), metadata={"eye": "right"}),
        audio=TrackPayload(SOUND),
    )
    right = {"eye": "right"}
    assert metadata(Eyes, output) == [{"left": {"n": 1}, "right": right}, {"left": {"n": 2}, "right": right}]


def test_a_payload_that_is_assigned_later_replaces_the_metadata() -> None:
    output = Picture(video=TrackPayload(frame(1), metadata={"n": 1}))
    output.video = frame(2)
    assert metadata(OneTrack, output) == [{"video": {"n": 1}}]
    output.video = TrackPayload(frame(3), metadata={"n": 3})
    assert metadata(OneTrack, output) == [{"video": {"n": 3}}]


@pytest.mark.parametrize(
    ("payload", "words"),
    [
        (TrackPayload(frame(1), metadata=[{}]), "left: metadata is a list, and the payload one frame"),
        (TrackPayload(batch(1, 2), metadata=[{}]), "left: 1 metadata for 2 frames: give a list with one for each"),
        (TrackPayload(batch(1, 2), metadata=[{}, 7]), "left: metadata is a dict or bytes, not int: 7"),  # type: ignore[list-item]
        (TrackPayload(frame(1), metadata="text"), "left: metadata is a dict or bytes, not str"),  # type: ignore[arg-type]
        (TrackPayload(frame(1), metadata={"x": {1, 2}}), "left: metadata that is not JSON: Object of type set"),
        (
            TrackPayload(frame(1), metadata={"x": np.float32(1)}),
            "left: metadata that is not JSON: Object of type float32",
        ),
        (TrackPayload(frame(1), metadata={"x": math.inf}), "left: metadata that is not JSON: Out of range float"),
        (TrackPayload(frame(1), metadata={"x": "y" * 65_487}), "left: metadata of 65495 bytes; at most 65494 go with"),
        (TrackPayload(frame(1), metadata=bytes(49_120)), "left: metadata of 65504 bytes; at most 65494"),
    ],
)
def test_wrong_metadata_names_its_field(payload: TrackPayload, words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        metadata(Eyes, Stereo(left=payload, right=frame(1), audio=SOUND))


def test_metadata_that_contains_itself_is_not_json() -> None:
    endless: dict[str, Any] = {}
    endless["x"] = endless
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"x": deep}
    for wrong in (endless, deep):
        with pytest.raises(ValueError, match="video: metadata that is not JSON"):
            metadata(OneTrack, TrackPayload(frame(1), metadata=wrong))


def test_sound_has_no_metadata() -> None:
    output = Both(video=frame(1), audio=TrackPayload(SOUND, metadata={}))
    with pytest.raises(ValueError, match="audio: metadata goes with frames, not with sound"):
        metadata(TwoTracks, output)


def test_metadata_of_the_largest_size_fits_the_header_of_any_track() -> None:
    for track in ("video", "é" * 127):
        most = MOST_BYTES - len(track.encode())
        text = metadata_text(track, {"x": "y" * (most - 8)})
        assert len(MediaHeader(track, 1, 2, 3, metadata=text.encode()).pack()) == 0xFFFF - 10
        with pytest.raises(ValueError, match="at most"):
            metadata_text(track, {"x": "y" * (most - 7)})


def test_a_block_keeps_its_metadata_from_the_author_s_thread_to_the_loop() -> None:
    unpack = Unpack(Contract.of(OneTrack))
    checked = unpack.check(TrackPayload(batch(1, 2), metadata=[{"n": 1}, None]))
    bundles = unpack(ByTrack(checked.arrays, checked.metadata))
    assert [dict(bundle.beside.metadata) for bundle in bundles] == [{"video": '{"n":1}'}, {}]
