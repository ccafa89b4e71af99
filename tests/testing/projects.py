"""Projects whose files a test changes while their model runs."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any


class Project:
    """A folder of Python files, which tests change."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self.name = name

    def write(self, text: str, *replaced: tuple[str, str], name: str = "") -> None:
        for old, new in replaced:
            assert old in text
            text = text.replace(old, new)
        (self.folder / f"{name or self.name}.py").write_text(textwrap.dedent(text))

    def model(self) -> Any:
        return __import__(self.name).MyModel
