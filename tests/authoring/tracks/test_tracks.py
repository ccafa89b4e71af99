"""Which fields of an Output are tracks, and what they may be."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Optional

import numpy as np
import pytest

from reactor_runtime import Audio, Output, Video
from reactor_runtime.authoring.tracks.tracks import TrackSpec, join_tracks, payloads, tracks_of


class Telephone(Audio):
    sample_rate = 8_000


class Panorama(Video):
    pass


class EverythingOutput(Output):
    left: Video
    right: Panorama
    voice: Audio
    phone: Telephone
    counted: ClassVar[int] = 0
    note: str


def test_fields_annotated_video_or_audio_or_a_subclass_are_tracks() -> None:
    assert tracks_of(EverythingOutput) == (
        TrackSpec("left", "video", "out", None),
        TrackSpec("right", "video", "out", None),
        TrackSpec("voice", "audio", "out", 48_000),
        TrackSpec("phone", "audio", "out", 8_000),
    )


def test_track_in_json_has_a_sample_rate_only_for_audio() -> None:
    assert TrackSpec("v", "video", "out", None).to_json() == {"name": "v", "kind": "video", "direction": "out"}
    assert TrackSpec("a", "audio", "out", 48_000).to_json()["sample_rate"] == 48_000


def test_payloads_are_the_tracks_values_alone() -> None:
    panorama, phone = Panorama(), Telephone()
    output = EverythingOutput(left=1, right=panorama, voice=3, phone=phone, note="x")
    assert payloads(output) == {"left": 1, "right": panorama, "voice": 3, "phone": phone}


@pytest.mark.parametrize("decorated", [False, True], ids=["undecorated", "decorated"])
def test_outputs_with_equal_arrays_are_not_compared(decorated: bool) -> None:
    class MyOutput(Output):
        main_video: Video

    cls = dataclass(MyOutput) if decorated else MyOutput
    one, two = cls(main_video=np.zeros((2, 2, 3))), cls(main_video=np.zeros((2, 2, 3)))
    assert one == one
    assert one != two
    assert len({one, two}) == 2


def test_child_keeps_the_tracks_of_its_parent() -> None:
    class Child(EverythingOutput):
        extra: Video

    assert [track.name for track in tracks_of(Child)] == ["left", "right", "voice", "phone", "extra"]


def test_optional_track_is_refused() -> None:
    with pytest.raises(TypeError, match=r"MyOutput\.main_video: a track must have a value in every output"):

        class MyOutput(Output):
            main_video: Optional[Video]  # noqa: UP045


def test_annotated_track_is_refused() -> None:
    with pytest.raises(TypeError, match=r"MyOutput\.main_video"):

        class MyOutput(Output):
            main_video: Annotated[Video, "left"]


def test_misspelt_annotation_is_refused_with_its_name() -> None:
    with pytest.raises(TypeError, match=r"MyOutput\.main_video.*'Vidoe'.*not defined"):

        class MyOutput(Output):
            main_video: "Vidoe"  # type: ignore[name-defined]  # noqa: F821


@pytest.mark.parametrize("rate", [0, -1, 44.1, "48000", True], ids=repr)
def test_sample_rate_must_be_a_positive_whole_number(rate: object) -> None:
    with pytest.raises(TypeError, match=r"Odd\.sample_rate"):
        type("Odd", (Audio,), {"sample_rate": rate})


def test_same_track_in_two_outputs_is_one_track() -> None:
    class One(Output):
        main: Video

    class Two(Output):
        main: Video
        sound: Audio

    assert [track.name for track in join_tracks("M", [One, Two])] == ["main", "sound"]


def test_same_track_of_two_kinds_names_both() -> None:
    class One(Output):
        main: Video

    class Two(Output):
        main: Audio

    with pytest.raises(TypeError, match=r"M: track 'main' is video in One and audio at 48000 Hz in Two"):
        join_tracks("M", [One, Two])


def test_same_track_at_two_rates_names_both() -> None:
    class One(Output):
        sound: Audio

    class Two(Output):
        sound: Telephone

    with pytest.raises(TypeError, match=r"at 48000 Hz in One and audio at 8000 Hz in Two"):
        join_tracks("M", [One, Two])


def test_name_too_long_for_the_wire_is_refused() -> None:
    with pytest.raises(TypeError, match="at most 255 bytes"):
        type("Long", (Output,), {"__annotations__": {"x" * 256: Video}})
