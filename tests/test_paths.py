from __future__ import annotations

from pathlib import Path

import pytest

from reactor_runtime import get_weights_path, paths


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, Path.home() / ".cache" / "reactor_registry"),
        ("", Path.home() / ".cache" / "reactor_registry"),
        ("/data/weights", Path("/data/weights")),
        ("~/weights", Path.home() / "weights"),
    ],
)
def test_the_weights_are_in_the_directory_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, value: str | None, expected: Path
) -> None:
    monkeypatch.delenv("REACTOR_WEIGHTS_PATH", raising=False)
    if value is not None:
        monkeypatch.setenv("REACTOR_WEIGHTS_PATH", value)
    assert get_weights_path() == paths.get_weights_path() == expected
