"""Tracks that depend on the config: outputs that `load()` makes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reactor_runtime.authoring.contract import Contract
from reactor_runtime.errors import LoadError, UsageError
from reactor_runtime.interface import Audio, Output, PipelineExecutor, ReactorModel, ReactorPipeline, Video
from reactor_runtime.testing import Studio, replay
from reactor_runtime.testing.rehearsal import rehearse
from tests.testing.models import Level
from tests.testing.projects import Project
from tests.testing.recorded import recorded
from tests.testing.test_session_replay import recording_in


def picture(red: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.full((2, 3, 3), red, np.uint8)


class Views(ReactorPipeline):
    """Show a view for each player of the config."""

    state: Level
    fps = 10

    def load(self, config: dict[str, Any]) -> None:
        names = [f"p{number}" for number in range(config.get("players", 2))]
        self.views = Output.make(**dict.fromkeys(names, Video))

    def inference(self) -> Iterator[Any]:
        while True:
            yield self.views(**{name: picture(number) for number, name in enumerate(self.views.__tracks__)})


@pytest.mark.parametrize("players", [1, 4])
def test_a_model_has_the_tracks_that_load_makes(players: int) -> None:
    with PipelineExecutor(Views, {"players": players}) as executor:
        assert [track.name for track in executor.tracks] == [f"p{number}" for number in range(players)]
        executor.connect()
        next(executor)
        shown = {frame.track: int(frame.array.flat[0]) for frame in executor.frames}
    assert shown == {f"p{number}": number for number in range(players)}


def test_a_loop_and_a_raw_frame_have_them_too() -> None:
    class Loop(ReactorModel):
        fps = 10

        def load(self, config: dict[str, Any]) -> None:  # noqa: ARG002
            self.view = Output.make(only=Video)

        async def run(self) -> None:
            while True:
                await self.emit(picture(9))

    with Studio(Loop) as studio:
        studio.connect()
        studio.run(0.15)
        assert {(frame.track, int(frame.array.flat[0])) for frame in studio.frames} == {("only", 9)}


def test_they_are_added_to_those_of_the_class_and_of_the_output_that_makes_them() -> None:
    class Sound(Output):
        voice: Audio

    class Speaking(Views):
        output: Sound

        def load(self, config: dict[str, Any]) -> None:  # noqa: ARG002
            self.views = Sound.make(left=Video)

        def inference(self) -> Iterator[Any]:
            while True:
                yield self.views(left=picture(1), voice=np.zeros(4800, np.int16))

    with PipelineExecutor(Speaking) as executor:
        assert sorted(track.name for track in executor.tracks) == ["left", "voice"]
        executor.connect()
        next(executor)
        assert sorted(frame.track for frame in executor.frames) == ["left", "voice"]


def test_without_load_a_class_has_none_and_the_same_types() -> None:
    declared = Contract.of(Views)
    assert declared.tracks == ()
    with Studio(Views) as studio:
        loaded = studio._contract.to_json()
    assert [track["name"] for track in loaded["tracks"]] == ["p0", "p1"]
    assert loaded["schema"]["types"] == declared.to_json()["schema"]["types"]


def test_the_rehearsal_of_check_has_them(tmp_path: Path) -> None:
    made = rehearse(Contract.of(Views), {}, tmp_path, on_step_limit=lambda error: pytest.fail(str(error)))
    assert [track.name for track in made.contract.tracks] == ["p0", "p1"]
    assert made.step is not None
    assert [track["name"] for track in made.step["tracks"]] == ["p0", "p1"]


@pytest.mark.parametrize(
    "tracks", [{"left": 3}, {"left": Level}, {"left eye": Video}], ids=["number", "other class", "no identifier"]
)
def test_make_takes_tracks_only(tracks: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match=r"Output\.make takes tracks, as in left=Video, not left"):
        Output.make(**tracks)


def test_a_track_that_clashes_with_one_of_the_class_is_an_error_of_load() -> None:
    class Sound(Output):
        voice: Audio

    class Clashing(Views):
        output: Sound

        def load(self, config: dict[str, Any]) -> None:  # noqa: ARG002
            self.views = Output.make(voice=Video)

    with pytest.raises(LoadError, match=r"tracks after load.*is audio at 48000 Hz in Sound and video in Output"):
        Studio(Clashing)


def test_an_output_that_load_does_not_keep_is_refused_with_the_fix() -> None:
    class Forgets(Views):
        def inference(self) -> Iterator[Any]:
            yield Output.make(other=Video)(other=picture(1))

    with PipelineExecutor(Forgets) as executor:
        executor.connect()
        with pytest.raises(TypeError, match=r"keep what Output.make\(\) returns on self in load"):
            next(executor)


RELOADED = """
    import numpy as np
    from reactor_runtime.interface import InputState, Output, ReactorPipeline, Video

    class MyState(InputState):
        level: int = 0

    class MyModel(ReactorPipeline):
        state: MyState
        fps = 10

        def load(self, config):
            self.views = Output.make(a=Video, b=Video)

        def inference(self):
            while True:
                yield self.views(**{name: np.zeros((2, 2, 3), np.uint8) for name in self.views.__tracks__})
"""


def test_a_reload_of_the_code_keeps_them_and_a_new_load_may_make_others(project: Project) -> None:
    project.write(RELOADED)
    with PipelineExecutor(project.model()) as executor:
        executor.connect()
        for change, tracks in ((("fps = 10", "fps = 20"), "ab"), (("b=Video", "c=Video, d=Video"), "acd")):
            project.write(RELOADED, change)
            executor.reload()
            next(executor)
            assert "".join(frame.track for frame in executor.frames) == tracks


def test_new_code_whose_tracks_clash_with_those_of_load_leaves_the_old_code() -> None:
    class Sound(Output):
        p0: Audio

    class Heard(Views):
        output: Sound

    with PipelineExecutor(Views) as executor:
        executor.connect()
        next(executor)
        with pytest.raises(LoadError, match="track 'p0' is audio at 48000 Hz in Sound and video in Output"):
            executor.reload(Heard)
        assert next(executor).output.p1[0, 0, 0] == 1


def test_a_recording_is_replayed_with_the_same_config_alone(tmp_path: Path) -> None:
    with recorded(Views, tmp_path, {"players": 3}) as studio:
        studio.run(0.3)
    assert replay(recording_in(tmp_path), Views, config={"players": 3}).differences == []
    with pytest.raises(UsageError, match="track p2 is gone"):
        replay(recording_in(tmp_path), Views, config={"players": 2})
