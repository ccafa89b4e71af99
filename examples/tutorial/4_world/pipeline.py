import numpy as np
from reactor_runtime.interface import (
    InputField,
    InputState,
    Keys,
    Look,
    ModelMessage,
    Output,
    ReactorPipeline,
    Stick,
    Video,
    event,
)
from world import START, find_gem, is_free, view


class MyOutput(Output):
    main_video: Video


class MyState(InputState):
    move: tuple[float, float] = InputField(default=(0.0, 0.0), bind=[Keys("a", "d", "s", "w"), Stick("left")])
    _place: complex = START
    _heading: float = 0.0
    _found: tuple[complex, ...] = ()


class Found(ModelMessage):
    gems: int


class MyModel(ReactorPipeline):
    state: MyState
    fps = 30

    @event(name="look", bind=[Look(), Stick("right")])
    def look(self, dx: float, dy: float) -> None:
        self.state._heading += dx

    def inference(self):
        while True:
            self.walk()
            gem = find_gem(self.state._place)
            if gem is not None and gem not in self.state._found:
                self.state._found += (gem,)
                self.send_nowait(Found(gems=len(self.state._found)))
            yield MyOutput(main_video=view(self.state._place, self.state._heading, self.state._found))

    def walk(self):
        right, ahead = self.state.move
        step = 0.08 * (ahead + 1j * right) * np.exp(1j * self.state._heading)
        for part in (step.real, 1j * step.imag):
            if is_free(self.state._place + part):
                self.state._place += part
