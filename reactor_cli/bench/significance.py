"""Tests whether two series of measurements differ by more than chance. Pure."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

LEAST = 4
# A difference counts if chance alone would produce one as large with a smaller probability.
SIGNIFICANT = 0.01


def p_value(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the probability of a difference at least this large between series of the same distribution.

    The test is the two-sided one of Mann and Whitney (1947), with the normal approximation, corrected for ties and
    continuity; 1 if one of the series has fewer than four values.
    """
    n, m = len(first), len(second)
    if min(n, m) < LEAST:
        return 1.0
    values = np.concatenate([np.asarray(first, float), np.asarray(second, float)])
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    # Equal values share the mean of their ranks.
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    u = float(ranks[:n].sum()) - n * (n + 1) / 2
    ties = float((counts.astype(float) ** 3 - counts).sum())
    total = n + m
    variance = n * m / 12 * (total + 1 - ties / (total * (total - 1)))
    if variance <= 0:
        return 1.0
    z = max(0.0, abs(u - n * m / 2) - 0.5) / math.sqrt(variance)
    return math.erfc(z / math.sqrt(2))


def rounds_needed(n: int, m: int, rounds: int) -> int | None:
    """Return how many rounds are needed for a difference to count, if `rounds` rounds gave `n` and `m` values.

    Return None if these rounds are enough, or if a series is empty.
    """
    if not n or not m or _least_p(n, m) < SIGNIFICANT:
        return None
    return next(
        more for more in itertools.count(rounds + 1) if _least_p(n * more // rounds, m * more // rounds) < SIGNIFICANT
    )


def _least_p(n: int, m: int) -> float:
    """Return the smallest p: that of two series where every value of one is below every value of the other."""
    return p_value(range(n), range(n, n + m))
