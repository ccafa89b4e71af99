"""Seeds of the random number generators that a model may use."""

from __future__ import annotations

import random
import sys

import numpy as np

# NumPy takes no larger seed.
MOST_SEEDS = 2**32


def seed_generators(seed: int) -> None:
    """Seed `random`, NumPy's global generator and, if it is imported, torch with its devices."""
    random.seed(seed)
    np.random.seed(seed)
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.manual_seed(seed)
