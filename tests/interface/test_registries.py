"""The registries of 3.x show the class that Reactor imported, the newest one after a reload."""

from __future__ import annotations

import sys
from pathlib import Path

from reactor_runtime import (
    EVENT_REGISTRY,
    INPUT_REGISTRY,
    MESSAGE_REGISTRY,
    OUTPUT_REGISTRY,
    all_input_tracks,
    all_output_tracks,
)
from reactor_runtime.authoring.importing import import_class

PROGRAM = """\
from reactor_runtime import *

class Out(Output):
    {track}: Video

class Room(Input):
    camera: Video

class StateUpdate(ModelMessage):
    {track}: int

class Steering(InputState):
    {track}: float = 1

class World(ReactorPipeline):
    state: Steering
    room: Room

    def inference(self):
        yield Idle
"""


def test_the_registries_show_the_imported_class_alone(tmp_path: Path) -> None:
    for track in ("first", "second"):
        (tmp_path / f"{track}_world.py").write_text(PROGRAM.format(track=track))
        import_class(tmp_path, f"{track}_world", "World")
        module = sys.modules[f"{track}_world"]
        assert list(EVENT_REGISTRY) == [f"set_{track}"]
        assert dict(MESSAGE_REGISTRY) == {"state_update": module.StateUpdate}
        assert (dict(OUTPUT_REGISTRY), dict(INPUT_REGISTRY)) == ({"Out": module.Out}, {"Room": module.Room})
        assert (list(all_output_tracks()), list(all_input_tracks())) == ([track], ["camera"])
        assert len(EVENT_REGISTRY) == 1
