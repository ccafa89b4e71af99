"""A small world to walk through: hills, lakes, day and night, and lights to find.

`reactor run` creates one MyModel, calls load() once, and runs inference() for each client that controls the model.
landscape.py makes the land, walker.py moves through it, view.py draws it.
"""

from collections.abc import Iterator
from dataclasses import field
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

from landscape import SIZE, Landscape
from view import View
from walker import Walker

LIGHTS = 20


# Each field is a track that clients receive.
class MyOutput(Output):
    main_video: Video


# A message to clients: {"type": "found", "data": {"found": 1, "left": 19}} on the wire.
class Found(ModelMessage):
    """The walker has reached a light, which goes out."""

    found: int
    left: int


# Each field is a control on the page. The model may change a field too, as it does the hour, and the page shows the new
# value. A field bound to keys or a gamepad returns to its default when they are released.
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
        default=0.0, ge=-1.0, le=1.0, description="To the right, or to the left", bind=Keys("left", "right")
    )
    run: bool = InputField(default=False, description="Faster", bind=[Key("shift"), Button("lt")])
    climb: float = InputField(
        default=0.3, ge=0.0, le=1.0, description="How high above the ground", bind=Wheel(step=0.05)
    )
    wander: bool = InputField(default=True, description="Walk by itself until a client does")
    hour: float = InputField(default=17.0, ge=0.0, le=24.0, description="Time of day")
    clock: bool = InputField(default=True, description="Advance the hour, a day in two minutes")
    # A field with a leading underscore is private: clients cannot read or set it.
    _walker: Walker = field(default_factory=Walker)
    _lights: np.ndarray = field(default_factory=lambda: np.empty((0, 3)))
    _since_hour: float = 0.0


class MyModel(ReactorPipeline):
    state: MyState
    fps = 30

    # Called once, before any client. The land never changes, so all clients share it.
    def load(self, config: dict[str, Any]) -> None:
        self.land = Landscape(config.get("seed", 7))
        width = config.get("width", 640)
        height = config.get("height", 360)
        self.view = View(self.land, width, height)

    # Called for each client, with a fresh state; a session changes only that.
    @connected
    def scatter_lights(self) -> None:
        places = np.random.default_rng(1).uniform(0, SIZE, (LIGHTS, 2))
        # The first light lies on the way.
        places[0] = 374, 731
        heights = self.land.height_at(places[:, 0], places[:, 1]) + 8
        self.state._lights = np.column_stack([places, heights])

    # dx and dy are the angles since the previous event, in radians.
    @event(name="look", description="Look around, to the right and down", bind=[Look(), Stick("right")])
    def look(self, dx: float = 0.0, dy: float = 0.0) -> None:
        self.state._walker.look(dx, dy)
        self.state.wander = False

    @event(name="jump", description="Jump", bind=[Key("space"), Button("a")])
    def jump(self) -> None:
        self.state._walker.jump()

    @event(name="elsewhere", description="Move to another place", bind=[Key("e"), Button("y")])
    def elsewhere(self) -> None:
        self.state._walker.move_elsewhere()

    # Started for each client. Each step makes one frame, so that a key shows in the next frame.
    def inference(self) -> Iterator[MyOutput]:
        t = 0.0
        while True:
            t += 1 / self.fps
            self.walk(1 / self.fps)
            self.pick_up_lights()
            self.pass_time(1 / self.fps)
            hour = (self.state.hour + self.state._since_hour) % 24
            yield MyOutput(main_video=self.view.draw(self.state._walker.lifted_eye(), hour, t, self.state._lights))

    def walk(self, seconds: float) -> None:
        """Move the walker as the controls say, or ahead while it wanders by itself."""
        state = self.state
        if state.walk or state.sidestep or state.turn:
            state.wander = False
        ahead = 0.6 if state.wander else state.walk
        state._walker.move(
            self.land, seconds, ahead=ahead, aside=state.sidestep, turn=state.turn, run=state.run, climb=state.climb
        )

    def pass_time(self, seconds: float) -> None:
        """Advance the hour in tenths: each change is a message to the clients, and thirty a second are too many."""
        if self.state.clock:
            self.state._since_hour += 24 / 120 * seconds
        if self.state._since_hour >= 0.1:
            self.state.hour = round(self.state.hour + 0.1, 1) % 24
            self.state._since_hour -= 0.1

    def pick_up_lights(self) -> None:
        """Remove the lights near the eye and send a message; after the last light all of them return."""
        eye, lights = self.state._walker.eye, self.state._lights
        away = (lights[:, :2] - (eye.x, eye.y) + SIZE / 2) % SIZE - SIZE / 2
        left = lights[np.hypot(away[:, 0], away[:, 1]) > 20]
        if len(left) < len(lights):
            self.send_nowait(Found(found=LIGHTS - len(left), left=len(left)))
            self.state._lights = left
        if len(left) == 0:
            self.scatter_lights()
