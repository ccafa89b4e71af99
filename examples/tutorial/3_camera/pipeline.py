from collections import deque

import numpy as np
from reactor_runtime.interface import Input, InputField, InputState, Output, ReactorPipeline, Video


class MyInput(Input):
    camera: Video


class MyOutput(Output):
    main_video: Video


class MyState(InputState):
    look_back: int = InputField(default=30, ge=0, le=59, description="Age of the bottom row, in frames")


class MyModel(ReactorPipeline):
    state: MyState
    input: MyInput
    fps = 60

    async def inference(self):
        past = deque(maxlen=60)
        while True:
            [frame] = await self.input.camera.read()
            if past and past[0].shape != frame.shape:
                past.clear()
            past.appendleft(frame.data)
            yield MyOutput(main_video=self.mirror(past))

    def mirror(self, past):
        oldest = min(self.state.look_back, len(past) - 1)
        ages = np.linspace(0, oldest, len(past[0])).round()
        frame = np.empty_like(past[0])
        for age in range(oldest + 1):
            frame[ages == age] = past[age][ages == age]
        return frame
