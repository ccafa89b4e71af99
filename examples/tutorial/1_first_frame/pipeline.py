import numpy as np
from reactor_runtime.interface import InputState, Output, ReactorPipeline, Video


class MyOutput(Output):
    main_video: Video


class MyState(InputState):
    speed: float = 1.0


class MyModel(ReactorPipeline):
    state: MyState
    fps = 30

    def load(self, config):
        self.y, self.x = np.mgrid[1:-1:360j, -1.8:1.8:640j].astype(np.float32)

    def inference(self):
        t = 0.0
        while True:
            t += self.state.speed / 30
            yield MyOutput(main_video=self.paint(t))

    def paint(self, t):
        fold = np.sin(1.7 * self.x + 0.5 * t) + 0.5 * np.sin(3.1 * self.x - 0.8 * t)
        height = self.y + 0.4 - 0.25 * fold
        curtain = np.where(height > 0, np.exp(-1.6 * height), np.exp(9 * height))
        rays = 0.7 + 0.3 * np.sin(24 * self.x + 7 * fold - 2 * t)
        red, green, blue = 0.9 * height * curtain, curtain * rays, 0.15 + 0.8 * np.abs(height) * curtain
        return (255 * np.stack([red, green, blue], axis=-1)).clip(0, 255).astype(np.uint8)
