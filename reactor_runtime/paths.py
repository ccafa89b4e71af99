"""`get_weights_path`: the directory of the model's weights, as programs for 3.x ask for it."""

from __future__ import annotations

import os
from pathlib import Path

VARIABLE = "REACTOR_WEIGHTS_PATH"
_DEFAULT = "~/.cache/reactor_registry"


def get_weights_path() -> Path:
    """Return the directory that the environment variable REACTOR_WEIGHTS_PATH names, else `~/.cache/reactor_registry`.

    It need not exist. A manifest of the 3.x form sets the variable with `runtime.weights_path`.
    """
    return Path(os.environ.get(VARIABLE) or _DEFAULT).expanduser()
