"""An instrument in the browser: notes come as events, and sound and picture leave together, frame by frame.

`reactor run` makes one MyModel, calls load() once, and runs inference() while somebody is connected. How the sound is
made is in synth.py, how it is drawn in scope.py.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from reactor_runtime.interface import (
    Audio,
    InputField,
    InputState,
    ModelMessage,
    Output,
    ReactorPipeline,
    Video,
    connected,
    event,
)

from scope import SKIES, Scope
from synth import RATE, WAVES, Synth, frequency, tune

NAMES = ("C", "C#", "D", "D#", "E", "F", "F#", "G", "G#", "A", "A#", "B")
PAUSE = 6 * RATE  # samples without a visitor's note before the instrument plays by itself


# Two tracks in one output: what is yielded together is seen and heard together. Sound is int16, (channels, samples),
# at 48 kHz; a subclass of Audio with another `sample_rate` would change that.
@dataclass
class MyOutput(Output):
    main_video: Video
    main_audio: Audio


# What an event may answer: clients get {"type": "played", "data": {"name": "A4", "hertz": 440.0}}.
class Played(ModelMessage):
    name: str
    hertz: float


# Sliders and switches. Those of a note take effect at the next note, volume and echo at once.
@dataclass
class MyState(InputState):
    wave: str = InputField(default="string", choices=list(WAVES), description="What the notes sound like")
    volume: float = InputField(default=0.8, ge=0.0, le=1.0, description="How loud it all is")
    attack: float = InputField(default=0.01, ge=0.002, le=1.0, description="Seconds in which a note begins")
    release: float = InputField(default=0.6, ge=0.02, le=4.0, description="Seconds in which notes fade after stop")
    echo: float = InputField(default=0.35, ge=0.0, le=0.8, description="How much comes back from the mountains")
    tune: bool = InputField(default=True, description="Plays by itself while nobody else does")
    sky: str = InputField(default="aurora", choices=list(SKIES), description="Colours of the picture")
    # What belongs to a session and is no control: made anew for each client.
    _synth: Synth = field(default_factory=Synth)
    _scope: Scope | None = None
    _quiet_since: int = -PAUSE


class MyModel(ReactorPipeline):
    state: MyState
    fps = 30  # a rate of our own: without one it would follow how fast frames are made, and sound has only one speed

    def load(self, config: dict[str, Any]) -> None:
        self.width = whole_number(config, "width", 640, least=16, most=4096)
        self.height = whole_number(config, "height", 360, least=16, most=4096)

    @connected
    def switch_on(self) -> None:
        self.state._scope = Scope(self.width, self.height)

    @event(name="play", description="Play a note")
    def play(
        self,
        note: int = InputField(default=69, ge=24, le=96, description="60 is the middle C, 1 is half a tone"),
        velocity: float = InputField(default=0.6, ge=0.0, le=1.0, description="How hard it is struck"),
    ) -> Played:
        state = self.state
        state._synth.play(note, velocity, wave=state.wave, attack_s=state.attack)
        state._quiet_since = state._synth.now
        return Played(f"{NAMES[note % 12]}{note // 12 - 1}", round(frequency(note), 2))

    @event(name="stop", description="Let all notes fade away")
    def stop(self) -> None:
        self.state._synth.stop(self.state.release)
        self.state._quiet_since = self.state._synth.now

    # One frame and the sound that belongs to it in each step. Notes that came meanwhile begin with the next.
    def inference(self) -> Iterator[MyOutput]:
        state, synth, scope = self.state, self.state._synth, self.state._scope
        assert scope is not None, "it is made when the client comes"
        for frame_idx in itertools.count():
            count = samples_in(frame_idx, self.fps)
            if state.tune and synth.now - state._quiet_since >= PAUSE:
                for at, note, velocity in tune(synth.now, synth.now + count):
                    synth.play(note, velocity, wave=state.wave, attack_s=state.attack, at=at)
            sound = synth.samples(count, volume=state.volume, echo=state.echo)
            yield MyOutput(main_video=scope.draw(sound, state.sky), main_audio=to_int16(sound))


# What raises in load() stops `reactor run` with the message and this line; later it would spoil somebody's session.
def whole_number(config: dict[str, Any], key: str, default: int, *, least: int, most: int) -> int:
    """Read a value of config.yml and see that it makes sense."""
    value = config.get(key, default)
    if type(value) is not int or not least <= value <= most:
        raise ValueError(f"{key} in config.yml is {value!r}; write a whole number from {least} to {most}")
    return value


def samples_in(frame_idx: int, fps: int) -> int:
    """Say how many samples last as long as this frame: 1600 at 30 fps, at any rate 48000 in a second."""
    return (frame_idx + 1) * RATE // fps - frame_idx * RATE // fps


def to_int16(sound: np.ndarray) -> np.ndarray:
    return np.rint(sound * 32767).astype(np.int16)
