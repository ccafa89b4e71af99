"""`DistributedWorker`: what a worker knows of its rank."""

from __future__ import annotations

import os
from typing import Any


class DistributedWorker:
    """Optional base class of the workers of a `DistributedRunner`.

    Override `load(**kwargs)`, `generate(input)` and `reset()`. Outside of a rank, as in a test, the worker is the only
    one.
    """

    @property
    def rank(self) -> int:
        """Return the number of this process, from 0."""
        return int(os.environ.get("RANK", "0"))

    @property
    def world_size(self) -> int:
        """Return the number of processes."""
        return int(os.environ.get("WORLD_SIZE", "1"))

    @property
    def is_leader(self) -> bool:
        """Return whether this is rank 0, whose result `generate()` of the runner returns."""
        return self.rank == 0

    @property
    def device(self) -> Any:
        """Return the `torch.device` of this rank: its CUDA device, or the CPU; without torch the text "cpu"."""
        try:
            import torch
        except ImportError:
            return "cpu"
        if torch.cuda.is_available():
            return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        return torch.device("cpu")

    def load(self, *args: Any, **kwargs: Any) -> None:
        """Prepare the worker: read weights, allocate memory. Runs once, in `DistributedRunner.start()`."""

    def generate(self, input: Any) -> Any:
        """Compute one result; all ranks get the same input, and the result of rank 0 is returned."""
        raise NotImplementedError(f"{type(self).__name__}.generate(input) is missing")

    def reset(self) -> None:
        """Forget what earlier calls of `generate` have left."""
