"""An instrument in the browser: notes are events; each output has a frame and the sound that belongs to it.

`reactor run` creates one MyModel, calls load() once, and runs inference() for each client that controls the model.
synth.py makes the sound, scope.py and piano.py draw it.
"""

import itertools
from collections.abc import Iterator
from dataclasses import field
from typing import Any

from reactor_runtime.interface import (
    Audio,
    InputField,
    InputState,
    Key,
    ModelMessage,
    Output,
    Pointer,
    ReactorPipeline,
    Video,
    connected,
    event,
)

from piano import Piano
from scope import SKIES, Scope
from synth import RATE, WAVES, Synth, frequency, note_name, samples_in, to_int16, tune

# The tune starts after this many samples without a note from a client.
PAUSE = 6 * RATE
MIDDLE_C = 60


# Two tracks in one output are shown and played together. Sound is int16, (channels, samples), at 48 kHz; a subclass
# of Audio can set another `sample_rate`.
class MyOutput(Output):
    main_video: Video
    main_audio: Audio


# The reply to an event: clients receive {"type": "played", "data": {"name": "A4", "hertz": 440.0}}.
class Played(ModelMessage):
    name: str
    hertz: float


# Each field is a control on the page. Volume and echo take effect at once, the others at the next note.
class MyState(InputState):
    wave: str = InputField(default="string", choices=list(WAVES), description="Sound of the notes")
    volume: float = InputField(default=0.8, ge=0.0, le=1.0, description="Volume")
    attack: float = InputField(default=0.01, ge=0.002, le=1.0, description="Seconds in which a note begins")
    release: float = InputField(default=0.6, ge=0.02, le=4.0, description="Seconds in which notes fade after stop")
    echo: float = InputField(default=0.35, ge=0.0, le=0.8, description="Volume of the echo")
    tune: bool = InputField(default=True, description="Play a tune while no client does")
    sky: str = InputField(default="aurora", choices=list(SKIES), description="Colours of the frame")
    # The place on the frame where the mouse or a finger is pressed.
    touch: tuple[float, float] | None = InputField(default=None, bind=Pointer(), label="Piano")
    # True while the computer's key is held, which has the place of the piano's key.
    c: bool = InputField(default=False, bind=Key("a"), label="C")
    c_sharp: bool = InputField(default=False, bind=Key("w"), label="C♯")
    d: bool = InputField(default=False, bind=Key("s"), label="D")
    d_sharp: bool = InputField(default=False, bind=Key("e"), label="D♯")
    e: bool = InputField(default=False, bind=Key("d"), label="E")
    f: bool = InputField(default=False, bind=Key("f"), label="F")
    f_sharp: bool = InputField(default=False, bind=Key("t"), label="F♯")
    g: bool = InputField(default=False, bind=Key("g"), label="G")
    g_sharp: bool = InputField(default=False, bind=Key("y"), label="G♯")
    a: bool = InputField(default=False, bind=Key("h"), label="A")
    a_sharp: bool = InputField(default=False, bind=Key("u"), label="A♯")
    b: bool = InputField(default=False, bind=Key("j"), label="B")
    high_c: bool = InputField(default=False, bind=Key("k"), label="High C")
    # Private fields are not controls; each client gets new ones.
    _synth: Synth = field(default_factory=Synth)
    _scope: Scope | None = None
    _held: frozenset[int] = frozenset()
    _quiet_since: int = -PAUSE


class MyModel(ReactorPipeline):
    state: MyState
    # Sound plays at one speed, so the frame rate is fixed; without `fps` it would follow the compute time.
    fps = 30

    def load(self, config: dict[str, Any]) -> None:
        self.width = config.get("width", 640)
        self.height = config.get("height", 360)
        self.piano = Piano(self.width, self.height)

    @connected
    def switch_on(self) -> None:
        self.state._scope = Scope(self.width, self.height - self.piano.rows)

    @event(name="play", description="Play a note")
    def play(
        self,
        note: int = InputField(default=69, ge=24, le=96, description="60 is middle C, 1 is a semitone"),
        velocity: float = InputField(default=0.6, ge=0.0, le=1.0, description="How hard the note is struck"),
    ) -> Played:
        state = self.state
        state._synth.play(note, velocity, wave=state.wave, attack_s=state.attack)
        state._quiet_since = state._synth.now
        return Played(note_name(note), round(frequency(note), 2))

    @event(name="stop", description="Fade all notes out")
    def stop(self) -> None:
        self.state._synth.stop(self.state.release)
        self.state._quiet_since = self.state._synth.now

    # Each step makes one frame and its sound. A note that arrives during a step begins with the next one.
    def inference(self) -> Iterator[MyOutput]:
        state, synth, scope = self.state, self.state._synth, self.state._scope
        assert scope is not None, "switch_on() made it when the client connected"
        for frame_idx in itertools.count():
            count = samples_in(frame_idx, self.fps)
            self.play_held_keys()
            if state.tune and synth.now - state._quiet_since >= PAUSE:
                for at, note, velocity in tune(synth.now, synth.now + count):
                    synth.play(note, velocity, wave=state.wave, attack_s=state.attack, at=at)
            sound = synth.samples(count, volume=state.volume, echo=state.echo)
            frame = self.piano.draw_below(scope.draw(sound, state.sky), state._held, synth.loudness(), state.sky)
            yield MyOutput(main_video=frame, main_audio=to_int16(sound))

    def play_held_keys(self) -> None:
        """Begin the notes of keys that were pressed since the last step, and fade those that were released."""
        state, before = self.state, self.state._held
        state._held = self.held_keys()
        for note in state._held - before:
            self.play(note)
        for note in before - state._held:
            state._synth.stop(state.release, note)
            state._quiet_since = state._synth.now

    def held_keys(self) -> frozenset[int]:
        """Return the notes that the computer's keys, the mouse or a finger hold now."""
        now = self.state
        keys = (
            now.c, now.c_sharp, now.d, now.d_sharp, now.e, now.f, now.f_sharp,
            now.g, now.g_sharp, now.a, now.a_sharp, now.b, now.high_c,
        )
        touched = None if now.touch is None else self.piano.key_at(*now.touch)
        held = {MIDDLE_C + idx for idx, down in enumerate(keys) if down}
        return frozenset(held if touched is None else held | {touched})
