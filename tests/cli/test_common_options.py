from __future__ import annotations

from pathlib import Path

import pytest

from reactor_runtime.clips.output_file import check_output_file
from reactor_runtime.errors import UsageError
from reactor_runtime.options.option import duration


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        ("0", 0),
        ("90", 90),
        ("90s", 90),
        ("5m", 300),
        ("1h", 3600),
        ("1.5M", 90),
        (" 2 h ", 7200),
        (0.0, 0),
        ("720h", 2592000),
    ],
)
def test_times_with_units_are_parsed(given: str | float, seconds: float) -> None:
    assert duration(given) == seconds


@pytest.mark.parametrize("given", ["", "s", "-1", "5d", "1h30m", "1e9", "nan", "inf", "721h", "٣"])
def test_a_malformed_time_is_an_error(given: str) -> None:
    with pytest.raises(ValueError, match="90, 90s, 5m or 1h"):
        duration(given)


def test_a_file_that_is_written_later_is_checked_now(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path, message in (
        (tmp_path, "can't be written: Is a directory"),
        (tmp_path / "file" / "cost.png", "file can't be made"),
        (Path("/proc/cost.png"), "/proc/cost.png can't be written"),
    ):
        with pytest.raises(UsageError, match=message):
            check_output_file(path)
    check_output_file(tmp_path / "file")
    check_output_file(tmp_path / "new" / "cost.png")
    (tmp_path / "link").symlink_to("cost.png")
    check_output_file(tmp_path / "link")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["file", "link", "new"]
    assert not any((tmp_path / "new").iterdir())
