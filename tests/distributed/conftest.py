"""Ranks on a machine with one GPU."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="module")
def ranks_start_beside_one_gpu() -> Iterator[None]:
    """Hide a single GPU, which two ranks can't share."""
    with pytest.MonkeyPatch.context() as patch:
        if importlib.util.find_spec("torch") is not None:
            import torch

            if torch.cuda.device_count() == 1:
                patch.setenv("CUDA_VISIBLE_DEVICES", "-1")
        yield
