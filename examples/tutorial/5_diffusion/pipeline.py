import numpy as np
from painter import Painter
from reactor_runtime.interface import Idle, InputField, InputState, Output, ReactorPipeline, Video

BLEND = np.linspace(0, 1, 17, dtype=np.float32)[1:, None, None, None]


class MyOutput(Output):
    main_video: Video


class MyState(InputState):
    prompt: str = InputField(
        default="a lighthouse in a storm", max_length=300, examples=["a paper city at night", "a coral reef in spring"]
    )
    seed: int = InputField(default=0, ge=0, le=99_999)
    travel: bool = InputField(default=True, description="Go on to the next seed without being asked")


class MyModel(ReactorPipeline):
    state: MyState
    fps = 16

    def load(self, config):
        self.painter = Painter()

    def inference(self):
        last = shown = None
        while True:
            wanted = (self.state.prompt, self.state.seed)
            if wanted == shown:
                yield Idle
                continue
            image = np.asarray(self.painter.paint(*wanted), np.float32)
            batch = image[None] if last is None else last + BLEND * (image - last)
            last, shown = image, wanted
            yield MyOutput(main_video=batch.astype(np.uint8))
            if self.state.travel and self.state.seed < 99_999:
                self.state.seed += 1
