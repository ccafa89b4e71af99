"""Which client is the source of an input track, and what is counted of its media."""

from __future__ import annotations

import pytest

from reactor_runtime.ipc.messages import InputsTaken
from reactor_runtime.server.sessions.input_tracks import SOURCE_S, InputTracks

NOW = 100.0


@pytest.fixture
def inputs() -> InputTracks:
    inputs = InputTracks()
    assert inputs.claim("camera", "first", NOW)
    return inputs


def test_a_track_has_one_source_and_another_track_another_one(inputs: InputTracks) -> None:
    assert not inputs.claim("camera", "second", NOW)
    assert inputs.claim("voice", "second", NOW)
    assert inputs.claim("camera", "first", NOW)


@pytest.mark.parametrize(("silent_s", "claimed"), [(SOURCE_S - 0.1, False), (SOURCE_S, True)])
def test_another_client_becomes_the_source_when_the_last_one_has_been_silent(
    silent_s: float, claimed: bool, inputs: InputTracks
) -> None:
    assert inputs.claim("camera", "first", NOW + 60)
    assert inputs.claim("camera", "second", NOW + 60 + silent_s) is claimed
    assert inputs.claim("camera", "first", NOW + 60 + silent_s) is not claimed


def test_a_refused_claim_does_not_prolong_the_wait(inputs: InputTracks) -> None:
    assert not inputs.claim("camera", "second", NOW + SOURCE_S - 0.1)
    assert inputs.claim("camera", "second", NOW + SOURCE_S)


def test_the_tracks_of_a_client_that_has_left_are_free(inputs: InputTracks) -> None:
    inputs.forget("second")
    assert not inputs.claim("camera", "second", NOW)
    inputs.forget("first")
    assert inputs.claim("camera", "second", NOW)


def test_a_refusal_is_answered_once_for_a_time_for_each_client_and_track(inputs: InputTracks) -> None:
    asked = [("camera", "second", 0.0), ("camera", "second", SOURCE_S - 0.1), ("camera", "third", 1.0)]
    assert [inputs.answers_refusal(track, client, NOW + s) for track, client, s in asked] == [True, False, True]
    assert inputs.answers_refusal("voice", "second", NOW)
    assert inputs.answers_refusal("camera", "second", NOW + SOURCE_S)
    inputs.forget("second")
    assert inputs.answers_refusal("camera", "second", NOW + SOURCE_S)


def test_a_request_for_steps_misses_what_has_not_come_since_the_last_one(inputs: InputTracks) -> None:
    for track in ("camera", "camera", "voice"):
        inputs.record_media(track)
    assert inputs.missing_media({"camera": 2, "voice": 3, "depth": 1}) == {"voice": 1, "depth": 0}
    assert inputs.missing_media({"camera": 1}) == {"camera": 0}


def test_statistics_have_the_fields_with_values(inputs: InputTracks) -> None:
    assert inputs.statistics() == {}
    for count in (2, 3):
        inputs.record_loss("voice", count)
    for at, came in ((10.0, 0), (11.0, 30)):
        inputs.demand.record(InputsTaken("s-1", "camera", at, came, came, 0))
    rates = {"camera": {"came": 30.0, "taken": 30.0, "wanted": 41.5}}
    assert inputs.statistics() == {"inputs": rates, "inputs_lost": {"voice": 5}}
    assert inputs.statistics() == {"inputs_lost": {"voice": 5}}
