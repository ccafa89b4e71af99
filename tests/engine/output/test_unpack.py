from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from reactor_runtime.authoring.contract import Contract
from reactor_runtime.engine.output.unpack import Unpack
from reactor_runtime.interface import Audio, InputState, Output, ReactorPipeline, Video
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
