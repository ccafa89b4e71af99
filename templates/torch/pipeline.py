"""A PyTorch model in the browser: a dish of living cells that clients paint into.

`reactor run` creates one MyModel, calls load() once, and runs inference() for each client that controls the model.
The network is in life.py; it runs on a GPU if there is one, and needs no weights.
"""

import itertools
from collections.abc import Iterator
from typing import Any

from reactor_runtime.interface import InputField, InputState, Output, Pointer, ReactorPipeline, Video, connected, event

# Each number is a rule. With about one number in ten the cells survive; many fill the dish and stand still.
SPECIES = {"plankton": 234, "jellies": 100324, "slugs": 100054, "tissue": 100163, "reef": 95, "veins": 386}
# Colours from 0 to 1: the ground, three kinds of matter, and matter that has just gone.
PALETTES = {
    "deep sea": [(0.01, 0.03, 0.08), (0.95, 0.35, 0.30), (0.10, 0.72, 0.85), (1.00, 0.82, 0.45), (0.10, 0.25, 0.75)],
    "ember": [(0.05, 0.01, 0.03), (1.00, 0.62, 0.18), (0.88, 0.16, 0.22), (1.00, 0.93, 0.75), (0.55, 0.08, 0.35)],
    "meadow": [(0.03, 0.06, 0.04), (0.98, 0.80, 0.30), (0.35, 0.78, 0.35), (0.93, 0.42, 0.62), (0.08, 0.40, 0.38)],
    "paper": [(0.95, 0.93, 0.88), (-0.1, -0.6, -0.7), (-0.8, -0.5, -0.2), (-0.1, -0.3, -0.7), (-0.2, -0.2, -0.1)],
}
# Frames between two checks whether cells are alive.
LOOK_AGAIN = 60


# Each field is a track that clients receive.
class MyOutput(Output):
    main_video: Video


# Each field is a control on the page and an event, set_<field>, on the wire.
class MyState(InputState):
    species: str = InputField(default="slugs", choices=list(SPECIES), description="The rule of the cells")
    speed: int = InputField(default=1, ge=0, le=4, description="Steps for each frame; 0 stops")
    palette: str = InputField(default="deep sea", choices=list(PALETTES), description="Colours of the frame")
    grazing: float = InputField(default=6.0, ge=0.0, le=60.0, description="Holes eaten a minute")
    # Private fields are not controls.
    _dish: Any = None
    _emptied: bool = False


class MyModel(ReactorPipeline):
    state: MyState
    fps = 30

    # Called once, before any client: choose a device, load weights, warm up.
    def load(self, config: dict[str, Any]) -> None:
        try:
            import torch

            from life import Life
        except ModuleNotFoundError as error:
            raise RuntimeError(f"{error.name} is not installed; try: pip install -r requirements.txt") from error
        wanted = config.get("device", "auto")
        if wanted == "auto":
            wanted = "cuda" if torch.cuda.is_available() else "cpu"
        self.device = torch.device(wanted)
        # By default PyTorch uses all cores, and its threads wait for each other: on a busy machine that is slower.
        torch.set_num_threads(config.get("threads", 1))
        self.width = config.get("width", 768)
        self.height = config.get("height", 512)
        scale = config.get("scale", 2)
        self.rows, self.columns = self.height // scale, self.width // scale
        self.seed = config.get("seed", 1)
        self.species = {name: Life(number, self.rows, self.columns).to(self.device) for name, number in SPECIES.items()}
        self.palettes = {name: torch.tensor(colours, device=self.device) for name, colours in PALETTES.items()}
        warm = self.new_dish()
        for life in self.species.values():
            warm.grow(life, 1)

    def new_dish(self) -> Any:
        from life import Dish

        return Dish(self.rows, self.columns, seed=self.seed, device=self.device)

    @connected
    def prepare(self) -> None:
        self.state._dish = self.new_dish()
        self.state._dish.sow()

    # A pressed mouse or a finger on the frame sends this event at each movement.
    @event(name="paint", description="Paint living matter into the dish", bind=Pointer())
    def paint(
        self,
        x: float = InputField(default=0.5, ge=0.0, le=1.0, description="0 is left, 1 is right"),
        y: float = InputField(default=0.5, ge=0.0, le=1.0, description="0 is top, 1 is bottom"),
        radius: float = InputField(default=0.06, ge=0.005, le=0.5, description="Fraction of the height"),
    ) -> None:
        self.state._dish.paint(x, y, radius)
        self.state._emptied = False

    @event(name="clear", description="Empty the dish until a client paints or sows")
    def clear(self) -> None:
        self.state._dish.clear()
        self.state._emptied = True

    @event(name="seed", description="Sow the dish again")
    def sow(self, number: int = InputField(default=1, ge=0, le=999_999, description="The seed of the dish")) -> None:
        self.state._dish.chance.seed(number)
        self.state._dish.sow()
        self.state._emptied = False

    # Each step makes one frame, as a tensor: Reactor accepts tensors on any device.
    def inference(self) -> Iterator[MyOutput]:
        state, dish = self.state, self.state._dish
        for frame_idx in itertools.count(1):
            dish.grow(self.species[state.species], state.speed)
            if state.speed and dish.chance.random() < state.grazing / 60 / self.fps:
                dish.eat()
            # alive() waits for the GPU, so it is called rarely.
            if frame_idx % LOOK_AGAIN == 0 and state.speed and not state._emptied and not dish.alive():
                dish.sow()
            yield MyOutput(main_video=dish.frame(self.palettes[state.palette], self.height, self.width))
