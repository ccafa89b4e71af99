"""The frames of the benchmark's model, for those who measure floors."""

from __future__ import annotations

import importlib.util

import numpy as np
from numpy.typing import NDArray

from benchmarks.serving import MODEL


def photo_like(width: int, height: int, count: int) -> NDArray[np.uint8]:
    """The frames of the model."""
    spec = importlib.util.spec_from_file_location("bench_model", MODEL / "pipeline.py")
    assert spec is not None, "the model lies beside this file"
    assert spec.loader is not None, "it is a source file"
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    made: NDArray[np.uint8] = module.photo_like(width, height, count)
    return made
