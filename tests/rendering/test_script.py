from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from reactor_runtime.authoring.contract import Contract
from reactor_runtime.errors import Location, UsageError
from reactor_runtime.media import wav
from reactor_runtime.rendering.script import Script, When, read_script
from tests.rendering.models import Counting, Follower, Loop

COUNTING, FOLLOWER = Contract.of(Counting), Contract.of(Follower)


def read(tmp_path: Path, text: str, contract: Contract = COUNTING) -> Script:
    path = tmp_path / "inputs.yaml"
    path.write_text(text)
    return read_script(path, contract)


def test_events_have_their_times_and_steps(tmp_path: Path) -> None:
    text = """\
- event: set_level
  data: {level: 1}
- {at: 2.5s, event: refuse}
- {at: 300ms, event: refuse}
- {at: 1 m, event: refuse}
- {at: 4, event: refuse}
- {at_step: 40, event: refuse}
- {at: 1e-5, event: refuse}
"""
    events = read(tmp_path, text).events
    times = [When(), When(2.5), When(0.3), When(60.0), When(4.0), When(step=40), When(1e-5)]
    assert [event.when for event in events] == times
    assert (events[0].name, json.loads(events[0].data_json)) == ("set_level", {"level": 1})
    assert json.loads(events[1].data_json) == {}
    assert [event.where.line for event in events] == [1, 3, 4, 5, 6, 7, 8]


def test_an_uploaded_file_is_read_relative_to_the_script(tmp_path: Path) -> None:
    (tmp_path / "cat.png").write_bytes(b"meow")
    (event,) = read(tmp_path, "- event: set_image\n  data: {image: {upload: cat.png}}\n").events
    (file,) = event.uploads
    assert (file.name, file.content_type, file.read()) == ("cat.png", "image/png", b"meow")
    assert json.loads(event.data_json) == {"image": {"upload": file.id}}


def test_files_of_input_tracks_are_found(tmp_path: Path) -> None:
    Image.new("RGB", (8, 8)).save(tmp_path / "a.png")
    (tmp_path / "a.wav").write_bytes(wav.encode(np.ones((1, 480), np.int16), 48_000))
    media = read(tmp_path, "- camera: a.png\n- {at: 1s, microphone: a.wav}\n", FOLLOWER).media
    assert [(each.track.name, each.when, each.path.name) for each in media] == [
        ("camera", When(), "a.png"),
        ("microphone", When(1.0), "a.wav"),
    ]
    assert media[0].sound is None
    assert media[1].sound is not None
    assert media[1].sound.shape == (1, 480)


def test_an_empty_script_has_no_entries(tmp_path: Path) -> None:
    assert read(tmp_path, "# later\n") == Script()


def test_entries_at_the_end_and_later_have_no_effect(tmp_path: Path) -> None:
    script = read(tmp_path, "- {at: 1, event: refuse}\n- {at: 2, event: refuse}\n- {at_step: 99, event: refuse}\n")
    assert [where.line for where in script.after_time(2.0)] == [2]
    assert [[where.line for where in script.after_steps(steps)] for steps in (99, 100)] == [[3], []]


@pytest.mark.parametrize(
    ("text", "place", "message", "hint"),
    [
        ("at: 1s\n", "1:1", "inputs.yaml is a mapping, not a list", "- at: 2.5s"),
        ("- refuse\n", "1:3", "an entry is a mapping, and this is text", "- at: 2.5s"),
        ("- at: 1s\n", "1:3", "an entry has no event and no track", "one `event:` or one input track"),
        ("- event: refuse\n  camera: a.mp4\n", "2:3", 'unknown key "camera"', "the model has no inputs"),
        ("- evnt: refuse\n", "1:3", 'unknown key "evnt"', 'did you mean "event"?'),
        ("- event: refuse\n  at: 1s\n  at_step: 2\n", "3:3", "an entry has `at` and `at_step`", "keep one"),
        ("- at: soon\n  event: refuse\n", "1:7", "at is 'soon', not a time", "2.5s, 300ms or 1m"),
        ("- at: -1s\n  event: refuse\n", "1:7", "at is '-1s', not a time", "2.5s"),
        ("- at_step: 1.5\n  event: refuse\n", "1:12", "at_step is 1.5, not a whole number", "the first step is 0"),
        ("- at_step: yes\n  event: refuse\n", "1:12", "at_step is True, not a whole number", "the first step is 0"),
        ("- event: set_levl\n", "1:10", "the model has no event 'set_levl'", "did you mean set_level?"),
        ("- event: jump\n", "1:10", "the model has no event 'jump'", "its events: fail, refuse, set_image, set_level"),
        ("- event: [1]\n", "1:10", "the model has no event [1]", "its events"),
        ("- event: set_level\n  data:\n    level: 12\n", "3:12", "set_level.level: 12 is above 9", ""),
        ("- event: set_level\n", "1:3", "set_level.level", ""),
        ("- at: 12:30\n  event: refuse\n", "1:7", "at is '12:30', not a time", "2.5s"),
        ("- at: .inf\n  event: refuse\n", "1:7", "at is inf, not a time", "2.5s"),
        ("- at: yes\n  event: refuse\n", "1:7", "at is True, not a time", "2.5s"),
        ("- event: set_level\n  data: {level: .nan}\n", "2:9", "not JSON compliant", "finite number"),
        ("- event: set_image\n  data: {image: {upload: no.png}}\n", "2:26", "no.png can't be read: No such file", ""),
        ("- event: set_image\n  data: {image: cat.png}\n", "2:17", "set_image.image", ""),
    ],
)
def test_a_wrong_entry_is_an_error_with_its_place_and_fix(
    text: str, place: str, message: str, hint: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError) as raised:
        read(tmp_path, text)
    assert str(raised.value.where).endswith(f"inputs.yaml:{place}")
    assert message in raised.value.message
    assert hint in raised.value.hint


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("- camera: a.bin\n", "1:11", "a.bin can't be read"),
        ("- camera: no.mp4\n", "1:11", "no.mp4 can't be read: No such file"),
        ("- camera: a.wav\n", "1:11", "a.wav has no frames"),
        ("- microphone: a.png\n", "1:15", "a.png has no sound"),
        ("- camera: 3\n", "1:11", "camera is a number, not the name of a file"),
        ("- camera: a.png\n  microphone: a.wav\n", "1:3", "more than one event or track"),
        ("- camera: a.png\n  data: {a: 1}\n", "2:3", "`data` belongs to an event"),
        ("- camera: wide.png\n", "1:11", "wide.png has frames of 5000x2"),
        ("- camra: a.png\n", "1:3", 'unknown key "camra"'),
    ],
)
def test_a_wrong_file_is_an_error_with_its_place(text: str, place: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_text("no video " * 99)
    (tmp_path / "a.wav").write_bytes(wav.encode(np.ones((1, 480), np.int16), 48_000))
    Image.new("RGB", (8, 8)).save(tmp_path / "a.png")
    Image.new("RGB", (5000, 2)).save(tmp_path / "wide.png")
    with pytest.raises(UsageError, match=message) as raised:
        read(tmp_path, text, FOLLOWER)
    assert str(raised.value.where).endswith(f"inputs.yaml:{place}")


def test_only_a_pipeline_has_steps(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"Loop has no steps.*write `at:` and a time"):
        read(tmp_path, "- at_step: 3\n  event: set_level\n  data: {level: 1}\n", Contract.of(Loop))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["refuse", "set_level", "1s"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["at", "at_step", "event", "data", "level", "image", "upload", 7]), inner)
    ),
    max_leaves=12,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=VALUES)
def test_any_file_is_a_script_or_a_usage_error_with_a_place(value: object, tmp_path: Path) -> None:
    where: Location | None = Location("", 1)
    try:
        read(tmp_path, yaml.safe_dump(value))
    except UsageError as error:
        where = error.where
    assert where is not None
