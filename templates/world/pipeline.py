"""A small world to wander through: hills, lakes, day and night, and lights to be found.

`reactor run` makes one MyModel, calls load() once, and runs inference() while somebody is connected.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from math import cos, pi, sin
from typing import Any

import numpy as np
from reactor_runtime.interface import (
    InputField,
    InputState,
    ModelMessage,
    Output,
    ReactorPipeline,
    Video,
    connected,
    event,
)

from landscape import SEA, SIZE, Landscape
from view import Eye, View

# What held keys do, named as browsers name them: walk, turn, climb.
KEYS = {
    "ArrowUp": (1, 0, 0),
    "ArrowDown": (-1, 0, 0),
    "ArrowLeft": (0, -1, 0),
    "ArrowRight": (0, 1, 0),
    "PageUp": (0, 0, 1),
    "PageDown": (0, 0, -1),
}
LIGHTS = 20


# What clients see. Each field is a track; its name is what they know it by.
class MyOutput(Output):
    main_video: Video


# What clients are told: on the wire {"type": "found", "data": {"found": 1, "left": 19}}.
class Found(ModelMessage):
    """The wanderer has come to a light; it goes out."""

    found: int
    left: int


# What clients may change: a control on the page for each field. The model changes them too, and the page follows:
# watch the hour.
class MyState(InputState):
    walk: float = InputField(default=0.6, ge=-1.0, le=1.0, description="Forward, or back")
    turn: float = InputField(default=0.0, ge=-1.0, le=1.0, description="To the left, or to the right")
    climb: float = InputField(default=0.3, ge=0.0, le=1.0, description="How high above the ground")
    hour: float = InputField(default=17.0, ge=0.0, le=24.0, description="Time of day")
    clock: bool = InputField(default=True, description="Let time pass, a day in two minutes")
    # A leading underscore keeps a field to ourselves: it belongs to the session, clients don't see it.
    _keys: frozenset[str] = frozenset()
    _eye: Eye = field(default_factory=lambda: Eye(x=500.0, y=700.0, z=80.0, heading=2.9))
    _lights: np.ndarray = field(default_factory=lambda: np.empty((0, 3)))
    _speed: float = 0.0
    _spin: float = 0.0
    _since_hour: float = 0.0


class MyModel(ReactorPipeline):
    state: MyState
    fps = 30

    # Called once, before anyone can connect. The land never changes, so all clients wander through the same.
    def load(self, config: dict[str, Any]) -> None:
        self.land = Landscape(whole_number(config, "seed", 7, least=0, most=999_999))
        width = whole_number(config, "width", 640, least=16, most=4096)
        height = whole_number(config, "height", 360, least=16, most=4096)
        self.view = View(self.land, width, height)

    # Called for each client, with a fresh state: what a session changes belongs there.
    @connected
    def scatter_lights(self) -> None:
        places = np.random.default_rng(1).uniform(0, SIZE, (LIGHTS, 2))
        places[0] = 374, 731  # one to begin with, on the way
        heights = self.land.height_at(places[:, 0], places[:, 1]) + 8
        self.state._lights = np.column_stack([places, heights])

    # Keys work beside the sliders: a client sends key_down once, and key_up when it is let go.
    @event(name="key_down", description="Hold a key")
    def key_down(self, key: str = InputField(default="ArrowUp", choices=list(KEYS))) -> None:
        self.state._keys |= {key}

    @event(name="key_up", description="Let a key go")
    def key_up(self, key: str = InputField(default="ArrowUp", choices=list(KEYS))) -> None:
        self.state._keys -= {key}

    @event(name="elsewhere", description="Wake up somewhere else")
    def elsewhere(self) -> None:
        eye = self.state._eye
        eye.x, eye.y, eye.heading = (eye.x + 0.38 * SIZE) % SIZE, (eye.y + 0.27 * SIZE) % SIZE, eye.heading + 2
        eye.z = 200.0  # above every mountain, and down from there

    # Started for each client. One picture a step, so that a key shows in the very next one.
    def inference(self) -> Iterator[MyOutput]:
        t = 0.0
        while True:
            t += 1 / self.fps
            self.move(1 / self.fps)
            self.pick_up_lights()
            self.pass_time(1 / self.fps)
            hour = (self.state.hour + self.state._since_hour) % 24
            yield MyOutput(main_video=self.view.draw(self.state._eye, hour, t, self.state._lights))

    def move(self, seconds: float) -> None:
        """Walk and turn, with weight: speeds follow what is asked for, and the eye leans into curves."""
        state, eye = self.state, self.state._eye
        keys = [KEYS[key] for key in state._keys]
        walk, turn, climb = (sum(parts) for parts in zip((state.walk, state.turn, 0), *keys, strict=True))
        state.climb = min(max(state.climb + 0.6 * climb * seconds, 0.0), 1.0)
        state._speed += (max(-1, min(walk, 1)) - state._speed) * 0.08
        state._spin += (max(-1, min(turn, 1)) - state._spin) * 0.08
        eye.heading = (eye.heading + 0.9 * state._spin * seconds) % (2 * pi)
        eye.tilt = 0.16 * state._spin
        way = 50 * state._speed * seconds
        eye.x, eye.y = (eye.x + way * cos(eye.heading)) % SIZE, (eye.y + way * sin(eye.heading)) % SIZE
        # As high as the highest ground in the next second, and not below the sea.
        ahead = np.linspace(-5, 50 * max(state._speed, 0) + 8, 12)
        ground = self.land.height_at(eye.x + ahead * cos(eye.heading), eye.y + ahead * sin(eye.heading)).max()
        eye.z += (max(ground, SEA) + 9 + 60 * state.climb - eye.z) * 0.06

    def pass_time(self, seconds: float) -> None:
        """Move the hour on in tenths: clients are told of each change, and need not be told of thirty a second."""
        if self.state.clock:
            self.state._since_hour += 24 / 120 * seconds
        if self.state._since_hour >= 0.1:
            self.state.hour = round(self.state.hour + 0.1, 1) % 24
            self.state._since_hour -= 0.1

    def pick_up_lights(self) -> None:
        """Put out the lights that the eye has come near, and tell the client; after the last one all shine again."""
        eye, lights = self.state._eye, self.state._lights
        away = (lights[:, :2] - (eye.x, eye.y) + SIZE / 2) % SIZE - SIZE / 2
        left = lights[np.hypot(away[:, 0], away[:, 1]) > 20]
        if len(left) < len(lights):
            self.send_nowait(Found(found=LIGHTS - len(left), left=len(left)))
            self.state._lights = left
        if len(left) == 0:
            self.scatter_lights()


# What raises in load() stops `reactor run` with the message and this line; later it would spoil somebody's session.
def whole_number(config: dict[str, Any], key: str, default: int, *, least: int, most: int) -> int:
    """Read a value of config.yml and see that it makes sense."""
    value = config.get(key, default)
    if type(value) is not int or not least <= value <= most:
        raise ValueError(f"{key} in config.yml is {value!r}; write a whole number from {least} to {most}")
    return value
