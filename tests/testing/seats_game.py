"""A game for four: each player moves a mark of its own, and sees the world around it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from reactor_runtime.interface import (
    ClientInfo,
    InputField,
    InputState,
    ModelMessage,
    Output,
    ReactorPipeline,
    Video,
    event,
    joined,
    left,
)

SEATS = 4


class View(Output):
    main_video: Video


class World(InputState):
    speed: int = InputField(default=1, ge=1, le=9)
    note: str = InputField(default="", shared=True)


class Player(InputState):
    move: Literal["none", "left", "right"] = "none"


class Moved(ModelMessage):
    seat: int
    x: int


class Game(ReactorPipeline):
    """Paint the place of each player into red, that of the seat into green, and the speed into blue."""

    state: World
    seat_state: Player
    seats: Any = SEATS
    output: View
    fps = 20

    def load(self, config: dict[str, Any]) -> None:
        self.every = config.get("every", 1)
        self.log: list[tuple[str, int]] = []

    @joined
    def joined(self, seat: int, client: ClientInfo) -> None:
        assert self.seats[seat].client is client
        self.log.append(("joined", seat))

    @left
    def left(self, seat: int) -> None:
        self.log.append((f"left at {self.seats[seat].state.move}", seat))

    @event(name="jump")
    def jump(self, client: ClientInfo, far: int = 1) -> Moved:
        assert client.seat is not None
        self.places[client.seat] += 10 * far
        return Moved(seat=client.seat, x=self.places[client.seat])

    def inference(self) -> Iterator[list[View | None]]:
        self.places = [0] * SEATS
        random = np.random.default_rng(np.random.randint(1 << 30))
        step = 0
        while True:
            for seat in self.seats:
                towards = {"left": -1, "right": 1, "none": 0}[seat.state.move]
                self.places[seat.number] += towards * self.state.speed
            noise = int(random.integers(4))
            shown: list[View | None] = [View(main_video=self._paint(seat.number, noise)) for seat in self.seats]
            # A free seat has nothing new in most steps.
            yield [view if seat.taken or step % 5 == 0 else None for seat, view in zip(self.seats, shown, strict=True)]
            step += self.every

    def _paint(self, seat: int, noise: int) -> NDArray[np.uint8]:
        picture = np.zeros((16, 16, 3), np.uint8)
        picture[..., 0] = 100 + self.places[seat]
        picture[..., 1] = 40 * seat + noise
        picture[..., 2] = 20 * self.state.speed
        return picture
