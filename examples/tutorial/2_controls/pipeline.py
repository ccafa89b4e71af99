from typing import Literal

import numpy as np
from reactor_runtime.interface import (
    InputField,
    InputState,
    Key,
    Keys,
    ModelMessage,
    Output,
    ReactorPipeline,
    Stick,
    Video,
    event,
)

COLOURS = {"green": (0.0, 1.0, 0.3), "rose": (1.0, 0.2, 0.5), "gold": (1.0, 0.7, 0.1)}


class MyOutput(Output):
    main_video: Video


class MyState(InputState):
    speed: float = InputField(default=1.0, ge=0.0, le=4.0, description="How fast the light moves")
    colour: Literal["green", "rose", "gold"] = "green"
    wind: float = InputField(default=0.0, ge=-1.0, le=1.0, bind=[Keys("left", "right"), Stick("left", "x")])
    _flares: int = 0
    _glow: float = 0.0


class Flared(ModelMessage):
    flares: int


class MyModel(ReactorPipeline):
    state: MyState
    fps = 30

    def load(self, config):
        self.y, self.x = np.mgrid[1:-1:360j, -1.8:1.8:640j].astype(np.float32)

    @event(name="flare", description="Let the sky light up", bind=Key("space"))
    def flare(self) -> Flared:
        self.state._flares += 1
        self.state._glow = 1.0
        return Flared(flares=self.state._flares)

    def inference(self):
        t = place = 0.0
        while True:
            t += self.state.speed / 30
            place += self.state.wind / 15
            self.state._glow *= 0.95
            yield MyOutput(main_video=self.paint(t, place))

    def paint(self, t, place):
        x = self.x - place
        fold = np.sin(1.7 * x + 0.5 * t) + 0.5 * np.sin(3.1 * x - 0.8 * t)
        height = self.y + 0.4 - 0.25 * fold
        curtain = np.where(height > 0, np.exp((self.state._glow - 1.6) * height), np.exp(9 * height))
        rays = 0.7 + 0.3 * np.sin(24 * x + 7 * fold - 2 * t)
        sky = (0.2 + np.abs(height) * curtain)[..., None] * [0.5, 0.1, 1.0]
        light = (curtain * rays * (1 + self.state._glow))[..., None] * COLOURS[self.state.colour]
        return (255 * (sky + light)).clip(0, 255).astype(np.uint8)
