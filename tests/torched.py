"""torch for the tests that need it, and the devices there are."""

from __future__ import annotations

from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")
DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
FLOATS = ["float16", "bfloat16", "float32", "float64"]
