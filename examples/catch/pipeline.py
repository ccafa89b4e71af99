"""A ball falls, and a paddle catches it: a game for people at the page, and an environment for programs."""

import random

import numpy as np

from reactor_runtime.interface import InputField, InputState, Keys, ModelMessage, Output, ReactorPipeline, Stick, Video

CELLS = 8
CELL = 8


class Screen(Output):
    main_video: Video


class Game(InputState):
    move: int = InputField(default=0, ge=-1, le=1, bind=[Keys("left", "right"), Stick("left", "x")])
    caught: int = InputField(default=0, read_only=True)
    missed: int = InputField(default=0, read_only=True)


class Played(ModelMessage):
    """The reward of a step: 1 for a ball that is caught, -1 for one that is missed."""

    reward: float
    landed: bool


class Catch(ReactorPipeline):
    state: Game
    fps = 6

    def inference(self):
        paddle = CELLS // 2
        while True:
            ball = random.randrange(CELLS)
            for row in range(CELLS):
                # The first frame shows the ball before the first move.
                if row:
                    paddle = min(max(paddle + self.state.move, 0), CELLS - 1)
                landed = row == CELLS - 1
                self.send_nowait(Played(reward=self._score(paddle == ball) if landed else 0.0, landed=landed))
                yield Screen(main_video=draw(ball, row, paddle))

    def _score(self, caught):
        self.state.caught += caught
        self.state.missed += not caught
        return 1.0 if caught else -1.0


def draw(ball: int, row: int, paddle: int) -> np.ndarray:
    cells = np.full((CELLS, CELLS, 3), 24, np.uint8)
    cells[CELLS - 1, paddle] = (80, 160, 255)
    cells[row, ball] = (255, 220, 80)
    return cells.repeat(CELL, 0).repeat(CELL, 1)
