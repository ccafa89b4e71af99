"""Read the numbers of config.yml. An exception in load() stops `reactor run` with its message and line."""

from typing import Any


def whole_number(config: dict[str, Any], key: str, default: int, *, least: int, most: int) -> int:
    """Return a whole number of config.yml, or the default; raise ValueError if it is out of range."""
    value = config.get(key, default)
    if type(value) is not int or not least <= value <= most:
        raise ValueError(f"{key} in config.yml is {value!r}; write a whole number from {least} to {most}")
    return value
