"""Train the network on games that random keys play, and write dream.safetensors.

    python train.py                                       # at most ten minutes on one core
    python train.py --minutes 2 --out first.safetensors   # a first look

The weights are written at the end: after Ctrl-C the file is as before. On the same machine the same seed gives the same
weights, unless the time is over before all updates are done.
"""

import argparse
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor
from torch.nn import functional

from game import SIDE, WAYS, Caves
from network import SEEN, Dream, encode, things_of, with_things

WEIGHTS = Path(__file__).with_name("dream.safetensors")
# Games at once, and frames through which the gradient flows; the memory of a game continues in the next update.
GAMES, FRAMES = 8, 12
# The longest game, in updates; it is reached in the last tenth of the training.
LONGEST = 12
# One frame of these is compared with the game, which is enough and saves time.
COMPARED = 2
RATE, WARM_UP = 4e-3, 50
# The shares of other errors beside that of the images. From images alone the network learns late what moves in the
# dark, so training compares what is in each cell too.
IMAGE_SHARE, KIND_SHARE, HEADING_SHARE = 3.0, 5.0, 0.1
REPORT_S = 5.0


class Players:
    """Press random keys: each player holds some for a while."""

    def __init__(self, count: int, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.ways = np.zeros(count, int)

    def press(self) -> tuple[np.ndarray, np.ndarray]:
        """Return ways (games) and flashes (games) of the next frame."""
        count = len(self.ways)
        others = self.rng.integers(len(WAYS), size=count)
        self.ways = np.where(self.rng.random(count) < 1 / 6, others, self.ways)
        return np.where(self.rng.random(count) < 1 / 2, self.ways, 0), self.rng.random(count) < 1 / 24


@dataclass
class Clip:
    """FRAMES frames of some games, frames first: inputs and headings of each, images of one in COMPARED.

    `kinds` is what is in the cells, before the first frame and after each.
    """

    inputs: Tensor
    headings: Tensor
    images: Tensor
    kinds: Tensor


def play(caves: Caves, players: Players) -> Clip:
    """Play the next frames."""
    inputs, headings, images, kinds = [], [], [], [torch.from_numpy(caves.kinds())]
    for number in range(FRAMES):
        ways, flashes = players.press()
        flown = caves.headings()
        caves.step(ways, flashes, flown)
        inputs.append(encode(ways, flashes, flown))
        headings.append(torch.from_numpy(flown))
        kinds.append(torch.from_numpy(caves.kinds()))
        if number % COMPARED == 0:
            images.append(torch.from_numpy(caves.draw()))
    return Clip(torch.stack(inputs), torch.stack(headings), torch.stack(images), torch.stack(kinds))


@dataclass
class Errors:
    """How far a dream is from its game: the images, the kinds of cells, the wisp's headings."""

    image: Tensor
    kind: Tensor
    heading: Tensor

    def total(self) -> Tensor:
        return IMAGE_SHARE * self.image + KIND_SHARE * self.kind + HEADING_SHARE * self.heading


def compare(dream: Dream, memory: Tensor, clip: Clip, taught: Tensor) -> tuple[Errors, Tensor]:
    """Dream a clip; return the errors, and the memory after it.

    Before the frames of `taught` (FRAMES, games) the memory is corrected.
    """
    memories = [memory]
    for inputs, kinds, corrected in zip(clip.inputs, clip.kinds[:-1], taught, strict=True):
        before = torch.where(corrected[:, None, None, None], with_things(memories[-1], kinds), memories[-1])
        memories.append(dream.step(before, inputs))
    real = clip.images.flatten(0, 1).permute(0, 3, 1, 2) / 255
    image = functional.l1_loss(dream.paint(torch.cat(memories[1::COMPARED])), real)
    shares = things_of(torch.cat(memories))
    kind = functional.nll_loss((shares + 1e-5).log(), clip.kinds.flatten(0, 1), reduction="none")
    # What changes counts more than what stays, of which there is so much more.
    changed = clip.kinds != torch.cat([clip.kinds[:1], clip.kinds[:-1]])
    kind = (kind * (1 + 7 * changed.flatten(0, 1))).mean()
    heading = functional.cross_entropy(
        dream.headings(torch.cat(memories[:-1])), clip.headings.flatten() - 1, ignore_index=-1
    )
    return Errors(image, kind, heading), memories[-1].detach()


def train(dream: Dream, *, updates: int, minutes: float, seed: int) -> Iterator[tuple[float, Errors]]:
    """Train until either limit, and yield after each update the progress from 0 to 1 and the errors."""
    start, progress = time.monotonic(), 0.0
    caves, players, chance = Caves(GAMES, seed), Players(GAMES, seed), torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(dream.parameters(), lr=RATE)
    firsts, left = torch.zeros(GAMES, SIDE, SIDE, 3, dtype=torch.uint8), torch.zeros(GAMES, dtype=torch.long)
    memory = dream.see(firsts).detach()
    for update in range(updates):
        over = left == 0
        caves.restart(np.flatnonzero(over))
        longest = 1 + int((LONGEST - 1) * min(1, max(0, 2 * progress - 0.8)))
        left = torch.where(over, torch.randint(longest, (GAMES,), generator=chance), left - 1)
        firsts = torch.where(over[:, None, None, None], torch.from_numpy(caves.draw()), firsts)
        # The first frame is read again in each update: it gets a gradient however long ago it was.
        seen = dream.see(firsts)
        live = torch.where(over[:, None, None, None], seen, memory)[:, SEEN:]
        clip = play(caves, players)
        taught = torch.rand(FRAMES, GAMES, generator=chance) < 1.8 - 2 * progress
        # bfloat16 takes half the time of float32 where a CPU has it, and longer elsewhere.
        with torch.autocast("cpu", torch.bfloat16, enabled=torch.backends.cpu.get_cpu_capability() == "AVX512"):
            errors, memory = compare(dream, torch.cat([seen[:, :SEEN], live], dim=1), clip, taught)
        optimizer.zero_grad()
        torch.autograd.backward(errors.total())
        torch.nn.utils.clip_grad_norm_(dream.parameters(), 0.5)
        for group in optimizer.param_groups:
            group["lr"] = RATE * min(1, update / WARM_UP) * (1 - 0.99 * progress)
        optimizer.step()
        progress = min(1.0, max((update + 1) / updates, (time.monotonic() - start) / 60 / minutes))
        yield progress, errors
        if progress >= 1:
            return


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10, help="stop after this time, by default 10")
    parser.add_argument("--updates", type=int, default=3000, help="stop after this many updates, by default 3000")
    parser.add_argument("--seed", type=int, default=1, help="of the games and the first weights, by default 1")
    parser.add_argument("--threads", type=int, default=1, help="of PyTorch, by default 1, which is enough")
    parser.add_argument("--out", type=Path, default=WEIGHTS, help="the file to write, by default dream.safetensors")
    options = parser.parse_args()
    if options.minutes <= 0 or options.updates < 1:
        parser.error("--minutes and --updates have to be above 0")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(options.seed)
    torch.set_num_threads(options.threads)
    dream = Dream().to(memory_format=torch.channels_last)
    show(train(dream, updates=options.updates, minutes=options.minutes, seed=options.seed))
    save(dream, options.out)


def show(training: Iterator[tuple[float, Errors]]) -> None:
    """Train, and print the progress and the errors after the first update, every few seconds, and at the end."""
    start, recent, reported = time.monotonic(), [], -REPORT_S
    for update, (progress, errors) in enumerate(training, 1):
        recent.append((errors.image.item(), errors.kind.item(), errors.heading.item()))
        passed = time.monotonic() - start
        if passed - reported >= REPORT_S or progress >= 1:
            image, kind, heading = np.mean(recent, axis=0)
            print(
                f"{progress:4.0%}  {passed:4.0f} s of {passed / progress:.0f}  update {update}"
                f"  image {image:.4f}  kind {kind:.3f}  heading {heading:.3f}",
                flush=True,
            )
            recent.clear()
            reported = passed


def save(dream: Dream, path: Path) -> None:
    """Write the weights in half precision."""
    save_file({name: value.half().contiguous() for name, value in dream.state_dict().items()}, path)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("stopped, nothing is written")
