"""The network: a convolutional recurrent unit that is the rules and the memory, and a painter of frames."""

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from game import CELL, HERO, KINDS, WAYS, WISP

# The way of the hero, lightning, and the way of the wisp.
INPUTS = len(WAYS) + 1 + len(WAYS)
# Numbers for each cell of the memory: what the first frame showed; the share of each kind of thing that may be in the
# cell; and what the network found useful to remember. HIDDEN is the width between two layers.
SEEN, THINGS, LIVE, HIDDEN = 6, len(KINDS), 14, 40
MEMORY = SEEN + THINGS + LIVE
# How firmly a cell keeps what is in it.
FIRMNESS = 6


class Dream(nn.Module):
    """Dream of a cave: `see` one frame, then `step` for each next one, and `paint` it.

    The memory is (games, MEMORY, rows, columns). The network never sees its own frames: what it forgets is gone.
    """

    def __init__(self) -> None:
        super().__init__()
        self.cells = nn.Conv2d(3, HIDDEN, CELL, stride=CELL)
        self.first = nn.Conv2d(HIDDEN, MEMORY, 3, padding=1)
        self.inputs = nn.Linear(INPUTS, 2 * HIDDEN)
        self.near = nn.Conv2d(MEMORY, HIDDEN, 3, padding=1)
        self.change = nn.Conv2d(HIDDEN, THINGS + 2 * LIVE, 3, padding=1)
        self.view = nn.Conv2d(MEMORY, HIDDEN, 1)
        self.scenery = nn.Conv2d(HIDDEN, 3 * CELL * CELL, 1)
        self.light = nn.Conv2d(HIDDEN, 3, 1)
        self.wisp = nn.Conv2d(HIDDEN, len(WAYS) - 1, 1)

    def see(self, frames: Tensor) -> Tensor:
        """Return the memory after the first frame, uint8 (games, height, width, 3)."""
        pixels = frames.permute(0, 3, 1, 2) / 255
        first = self.first(functional.relu(self.cells(pixels))).float()
        seen, things, live = first.split_with_sizes([SEEN, THINGS, LIVE], dim=1)
        return torch.cat([torch.tanh(seen), things.softmax(dim=1), torch.tanh(live)], dim=1)

    def step(self, memory: Tensor, inputs: Tensor) -> Tensor:
        """Return the memory after a frame with inputs (games, INPUTS)."""
        seen, things, live = memory.split_with_sizes([SEEN, THINGS, LIVE], dim=1)
        scale, shift = self.inputs(inputs)[:, :, None, None].chunk(2, dim=1)
        hidden = functional.relu(self.near(memory) * (1 + scale) + shift)
        change, gate, new = self.change(hidden).float().split_with_sizes([THINGS, LIVE, LIVE], dim=1)
        things = (FIRMNESS * things + change).softmax(dim=1)
        return torch.cat([seen, things, torch.lerp(live, torch.tanh(new), torch.sigmoid(gate))], dim=1)

    def paint(self, memory: Tensor) -> Tensor:
        """Return frames (games, 3, height, width), about 0 to 1: what is there, times the light on it."""
        hidden = functional.relu(self.view(memory))
        scenery = functional.pixel_shuffle(self.scenery(hidden).float(), CELL)
        return scenery * functional.interpolate(self.light(hidden).float(), scale_factor=CELL)

    def headings(self, memory: Tensor) -> Tensor:
        """Return the logits of the wisp's next way, read where the wisp is, (games, len(WAYS) - 1)."""
        logits = self.wisp(functional.relu(self.near(memory))).float()
        where = things_of(memory)[:, WISP, None]
        return (logits * where).sum(dim=(2, 3)) / where.sum(dim=(2, 3)).clamp(min=0.1)


def things_of(memory: Tensor) -> Tensor:
    """Return the shares of things in the cells of a memory, (games, THINGS, rows, columns)."""
    return memory[:, SEEN : SEEN + THINGS]


def with_things(memory: Tensor, kinds: Tensor) -> Tensor:
    """Return a memory that is certain of the kinds (games, rows, columns) in its cells."""
    certain = functional.one_hot(kinds, THINGS).permute(0, 3, 1, 2).float()
    return torch.cat([memory[:, :SEEN], certain, memory[:, SEEN + THINGS :]], dim=1)


def settle(memory: Tensor) -> Tensor:
    """Return a memory that is certain of what is most likely in its cells, with exactly one hero and one wisp."""
    games, shares = torch.arange(len(memory)), things_of(memory).flatten(2)
    heroes, wisps = shares[:, HERO].argmax(dim=1), shares[:, WISP].clone()
    # Where both are, the game shows the hero; two can't be in a cell of the memory.
    wisps[games, heroes] = -1
    kinds = shares[:, :HERO].argmax(dim=1)
    kinds[games, wisps.argmax(dim=1)] = WISP
    kinds[games, heroes] = HERO
    return with_things(memory, kinds.view(-1, *memory.shape[2:]))


def encode(ways: np.ndarray, flashes: np.ndarray, headings: np.ndarray) -> Tensor:
    """Return what the network gets for a frame of some games, (games, INPUTS)."""
    one_hot = np.eye(len(WAYS), dtype=np.float32)
    columns = [one_hot[ways], flashes[:, None].astype(np.float32), one_hot[headings]]
    return torch.from_numpy(np.concatenate(columns, axis=1))
