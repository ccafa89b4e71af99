from __future__ import annotations

import pytest
import typer

from reactor_cli.common_options import duration


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
    with pytest.raises(typer.BadParameter, match="90, 90s, 5m or 1h"):
        duration(given)
