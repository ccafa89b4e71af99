"""The model: a continuous cellular automaton, which is a small recurrent convolutional network, and its dish."""

import random

import torch
from torch import Tensor

CHANNELS = 3
KERNELS = 10
# The radius of the widest kernel, in cells.
REACH = 16
RINGS = 3
STEP = 0.1


class Life(torch.nn.Module):
    """The rule of one species: how the rings of cells around a cell change it.

    Its weights are random, drawn from a number; a trained model would load a checkpoint instead.
    """

    kernels: Tensor
    reads: Tensor
    writes: Tensor
    likes: Tensor
    spread: Tensor

    def __init__(self, number: int, height: int, width: int) -> None:
        super().__init__()
        chance = random.Random(number)
        reads, weights, kernels, likes, spreads = [], torch.zeros(CHANNELS, KERNELS), [], [], []
        for idx in range(KERNELS):
            # The first kernels connect each channel with itself, the others any two.
            source = idx if idx < CHANNELS else chance.randrange(CHANNELS)
            target = idx if idx < CHANNELS else chance.randrange(CHANNELS)
            kernels.append(rings(chance, height, width))
            likes.append(chance.uniform(0.08, 0.42))
            spreads.append(chance.uniform(0.012, 0.09))
            weights[target, idx] = chance.uniform(0.2, 1)
            reads.append(source)
        self.register_buffer("kernels", torch.stack(kernels))
        self.register_buffer("reads", torch.tensor(reads))
        self.register_buffer("writes", STEP * weights / weights.sum(1, keepdim=True))
        self.register_buffer("likes", torch.tensor(likes)[:, None, None])
        self.register_buffer("spread", torch.tensor(spreads)[:, None, None])

    def forward(self, cells: Tensor) -> Tensor:
        """Return cells, (channels, height, width) from 0 to 1, after one step; opposite edges are joined."""
        # Kernels this wide are cheaper as a product of spectra than as conv2d.
        felt = torch.fft.irfft2(torch.fft.rfft2(cells)[self.reads] * self.kernels, s=cells.shape[-2:])
        # In place: 2 * exp(-((felt - likes) / spread) ** 2 / 2) - 1, which is 1 where the kernel's sum is `likes`.
        growth = felt.sub_(self.likes).div_(self.spread).square_().div_(-2).exp_().mul_(2).sub_(1)
        return torch.einsum("ck,khw->chw", self.writes, growth).add_(cells).clamp_(0, 1)


def rings(chance: random.Random, height: int, width: int) -> Tensor:
    """Return the spectrum of a kernel of soft rings, which is real because the kernel is even."""
    radius = REACH * chance.uniform(0.35, 1)
    y = torch.fft.fftfreq(height, 1 / height)[:, None]
    x = torch.fft.fftfreq(width, 1 / width)
    distance = torch.hypot(x, y) / radius
    kernel = torch.zeros(height, width)
    for _ in range(RINGS):
        middle, thickness, strength = chance.uniform(0, 1), chance.uniform(0.02, 0.25), chance.uniform(0.2, 1)
        kernel += strength * torch.exp(-(((distance - middle) / thickness) ** 2) / 2)
    kernel *= torch.sigmoid(10 - 10 * distance) * (distance < 1.5)
    return torch.fft.rfft2(kernel / kernel.sum()).real.clone()


class Dish:
    """The cells of one session; they depend only on `seed`, the rules and the events."""

    def __init__(self, height: int, width: int, *, seed: int, device: torch.device) -> None:
        self.height, self.width = height, width
        self.chance = random.Random(seed)
        # Drawn on the CPU, so that it is the same on every device.
        self.noise = torch.rand(CHANNELS, height, width, generator=torch.Generator().manual_seed(seed)).to(device)
        self.y = torch.arange(height, device=device)[:, None]
        self.x = torch.arange(width, device=device)
        self.cells = torch.zeros_like(self.noise)
        self.afterglow = torch.zeros_like(self.noise)
        self.noticed = torch.zeros_like(self.noise)

    @torch.no_grad()
    def grow(self, life: Life, steps: int) -> None:
        for _ in range(steps):
            self.cells = life(self.cells)
        self.afterglow = torch.maximum(self.afterglow * 0.93, self.cells)

    def sow(self) -> None:
        """Empty the dish and scatter new cells."""
        self.clear()
        for _ in range(1 + self.height * self.width // (8 * REACH**2)):
            self.paint(self.chance.random(), self.chance.random(), 0.7 * REACH / self.height)

    def clear(self) -> None:
        self.cells = torch.zeros_like(self.cells)

    def paint(self, x: float, y: float, radius: float) -> None:
        """Fill a disc with noise, from which most species grow."""
        shift = (self.chance.randrange(self.height), self.chance.randrange(self.width))
        self.cells = torch.where(self.disc(x, y, radius), self.noise.roll(shift, (1, 2)), self.cells)

    def eat(self) -> None:
        """Remove a disc of cells, so that there is space to grow into."""
        gone = self.disc(self.chance.random(), self.chance.random(), self.chance.uniform(0.1, 0.25))
        self.cells = self.cells.masked_fill(gone, 0)

    def disc(self, x: float, y: float, radius: float) -> Tensor:
        """Return a mask of the cells within `radius` of a place; x, y and radius are fractions, edges are joined."""
        dy = (self.y - y * self.height).abs()
        dx = (self.x - x * self.width).abs()
        dy, dx = torch.minimum(dy, self.height - dy), torch.minimum(dx, self.width - dx)
        return dy**2 + dx**2 < (radius * self.height) ** 2

    def alive(self) -> bool:
        """Return whether there are cells, and whether they have changed since the previous call."""
        amount = float(self.cells.mean())
        moved = float((self.cells - self.noticed).abs().mean())
        self.noticed = self.cells
        return 1e-3 < amount < 0.9 and moved > 1e-3 * amount

    @torch.no_grad()
    def frame(self, colours: Tensor, height: int, width: int) -> Tensor:
        """Return a frame, uint8 (height, width, 3); `colours` has the ground, each channel and the afterglow."""
        ground, channels, glow = colours[0], colours[1:-1], colours[-1]
        cells = torch.nn.functional.avg_pool2d(self.cells, 3, stride=1, padding=1, count_include_pad=False)
        thickness = cells.sum(0)
        # The light comes from the upper left.
        light = 1 + 1.5 * (thickness - thickness.roll((1, 1), (0, 1)))
        paint = torch.einsum("chw,cr->rhw", cells, channels) * light.clamp(0.4, 2)
        trace = (self.afterglow - self.cells).mean(0) * glow[:, None, None]
        layers = (255 * (ground[:, None, None] + paint + trace).clamp(0, 1))[None]
        # Channels last is the layout of a frame, and also the faster one for interpolate().
        layers = layers.contiguous(memory_format=torch.channels_last)
        layers = torch.nn.functional.interpolate(layers, size=(height, width), mode="bilinear")
        return layers[0].to(torch.uint8).permute(1, 2, 0)
