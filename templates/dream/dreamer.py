"""Dreams, and the real games beside them: the same first frame, then the same inputs."""

from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from game import FLAME, Caves
from network import Dream, encode, settle, things_of, with_things

# Torches that burn from the start; the others are lit by a touch.
BURNING = 4


def load_dream(path: Path) -> Dream:
    """Return the network with the weights of a file; raise RuntimeError if they are of another network or damaged."""
    dream = Dream()
    try:
        dream.load_state_dict(load_file(path))
    except (OSError, RuntimeError, SafetensorError) as error:
        raise RuntimeError(f"{path.name} has no weights for network.py; try: python train.py\n{error}") from error
    return dream.requires_grad_(False)


class Dreamer:
    """Some dreams side by side. The network sees the first frame of each game and no other."""

    def __init__(self, dream: Dream, *, games: int, seed: int) -> None:
        self.dream = dream
        self.games = Caves(games, seed)
        self.chance = torch.Generator().manual_seed(seed)
        self.memory = self.see()

    def restart(self) -> None:
        """Begin again, each in a new cave."""
        self.games.restart(np.arange(self.games.count))
        self.memory = self.see()

    def light_torches(self) -> None:
        """Light some torches of each cave: in the game, and in the memory of the network, which has not seen it."""
        for torches, lit in zip(self.games.torches, self.games.lit, strict=True):
            lit[tuple(np.argwhere(torches)[:BURNING].T)] = True
        burning = torch.from_numpy(self.games.lit)
        self.memory = with_things(self.memory, torch.where(burning, FLAME, things_of(self.memory).argmax(dim=1)))

    def step(self, ways: np.ndarray, flashes: np.ndarray, temperature: float = 1.0) -> None:
        """Advance dreams and games by a frame; the wisps of the games move where the network lets its own move."""
        headings = self.headings(temperature)
        self.memory = settle(self.dream.step(self.memory, encode(ways, flashes, headings)))
        self.games.step(ways, flashes, headings)

    def see(self) -> Tensor:
        return self.dream.see(torch.from_numpy(self.games.draw()))

    def headings(self, temperature: float) -> np.ndarray:
        """Return the way of each wisp, by chance as the network expects it; the likeliest at temperature 0."""
        logits = self.dream.headings(self.memory)
        # Also where a division by the temperature would exceed the range of float32.
        if temperature < 0.01:
            ways = logits.argmax(dim=1)
        else:
            ways = torch.multinomial((logits / temperature).softmax(dim=1), 1, generator=self.chance)[:, 0]
        return np.where(self.games.wisps_move(), 1 + ways.numpy(), 0)

    def frames(self) -> np.ndarray:
        """Return a frame of each dream, uint8 (games, height, width, 3)."""
        return self.dream.paint(self.memory).mul(255).clamp(0, 255).byte().permute(0, 2, 3, 1).numpy()
