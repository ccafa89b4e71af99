"""A small world to wander through: hills, lakes, day and night, and lights to be found.

`reactor run` makes one MyModel, calls load() once, and runs inference() while somebody is connected.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field, replace
from math import cos, pi, sin
from typing import Any

import numpy as np
from reactor_runtime.interface import (
    Button,
    InputField,
    InputState,
    Key,
    Keys,
    Look,
    ModelMessage,
    Output,
    ReactorPipeline,
    Stick,
    Video,
    Wheel,
    connected,
    event,
)

from landscape import SEA, SIZE, Landscape
from view import Eye, View

LIGHTS = 20
WALK, RUN = 40, 90  # cells a second
STEEPEST = 0.5  # radians up or down that one can look


# What clients see. Each field is a track; its name is what they know it by.
class MyOutput(Output):
    main_video: Video


# What clients are told: on the wire {"type": "found", "data": {"found": 1, "left": 19}}.
class Found(ModelMessage):
    """The wanderer has come to a light; it goes out."""

    found: int
    left: int


# What clients may change: a control on the page for each field. The model changes them too, and the page follows:
# watch the hour. What is bound to keys or a gamepad goes back to its default when they are let go.
class MyState(InputState):
    walk: float = InputField(
        default=0.0,
        ge=-1.0,
        le=1.0,
        description="Forward, or back",
        bind=[Keys("s", "w"), Keys("down", "up"), Stick("left", "y")],
    )
    sidestep: float = InputField(
        default=0.0,
        ge=-1.0,
        le=1.0,
        description="To the right, or to the left",
        bind=[Keys("a", "d"), Stick("left", "x")],
    )
    turn: float = InputField(
        default=0.0, ge=-1.0, le=1.0, description="Round to the right, or to the left", bind=Keys("left", "right")
    )
    run: bool = InputField(default=False, description="Faster", bind=[Key("shift"), Button("lt")])
    climb: float = InputField(
        default=0.3, ge=0.0, le=1.0, description="How high above the ground", bind=Wheel(step=0.05)
    )
    wander: bool = InputField(default=True, description="Walk by itself, until somebody does")
    hour: float = InputField(default=17.0, ge=0.0, le=24.0, description="Time of day")
    clock: bool = InputField(default=True, description="Let time pass, a day in two minutes")
    # A leading underscore keeps a field to ourselves: it belongs to the session, clients don't see it.
    _eye: Eye = field(default_factory=lambda: Eye(x=500.0, y=700.0, z=80.0, heading=2.9))
    _lights: np.ndarray = field(default_factory=lambda: np.empty((0, 3)))
    _speed: float = 0.0
    _slide: float = 0.0
    _spin: float = 0.0
    _lift: float = 0.0  # above where one would stand, and how fast that grows
    _rise: float = 0.0
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

    # How far the mouse has moved since the event before, as radians; nothing of it is lost.
    @event(name="look", description="Look around, to the right and down", bind=[Look(), Stick("right")])
    def look(self, dx: float = 0.0, dy: float = 0.0) -> None:
        eye = self.state._eye
        eye.heading = (eye.heading + dx) % (2 * pi)
        eye.pitch = min(max(eye.pitch - dy, -STEEPEST), STEEPEST)
        self.state.wander = False

    @event(name="jump", description="Leap", bind=[Key("space"), Button("a")])
    def jump(self) -> None:
        if self.state._lift == 0:
            self.state._rise = 34.0

    @event(name="elsewhere", description="Wake up somewhere else", bind=[Key("e"), Button("y")])
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
            eye = replace(self.state._eye, z=self.state._eye.z + self.state._lift)
            yield MyOutput(main_video=self.view.draw(eye, hour, t, self.state._lights))

    def move(self, seconds: float) -> None:
        """Walk and turn, with weight: speeds follow what is asked for, and the eye leans into curves."""
        state, eye = self.state, self.state._eye
        if state.walk or state.sidestep or state.turn:
            state.wander = False
        fastest = RUN if state.run else WALK
        state._speed += ((0.6 if state.wander else state.walk) * fastest - state._speed) * 0.12
        state._slide += (state.sidestep * fastest - state._slide) * 0.12
        state._spin += (state.turn - state._spin) * 0.12
        eye.heading = (eye.heading + 1.2 * state._spin * seconds) % (2 * pi)
        eye.tilt = 0.12 * state._spin + 0.0006 * state._slide
        over, along = cos(eye.heading), sin(eye.heading)
        way = np.array([over * state._speed - along * state._slide, along * state._speed + over * state._slide])
        eye.x, eye.y = (np.array([eye.x, eye.y]) + way * seconds) % SIZE
        # As high as the highest ground in the next second, and not below the sea.
        ahead = np.linspace(-0.1, 1, 12)
        ground = self.land.height_at(eye.x + ahead * way[0], eye.y + ahead * way[1]).max()
        eye.z += (max(ground, SEA) + 9 + 60 * state.climb - eye.z) * 0.06
        state._lift = max(state._lift + state._rise * seconds, 0)
        state._rise = state._rise - 60 * seconds if state._lift else 0.0

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
