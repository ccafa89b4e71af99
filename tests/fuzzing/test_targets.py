from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzzing.targets import TARGETS

EXAMPLES = 200


@st.composite
def mutated(draw: st.DrawFn, seeds: list[bytes]) -> bytes:
    """Return one of these files with bytes that are changed, added, repeated or missing, or any bytes."""
    data = bytearray(draw(st.sampled_from([b"", *seeds])))
    for _ in range(draw(st.integers(1, 6))):
        at = draw(st.integers(0, len(data)))
        match draw(st.sampled_from(["change", "insert", "delete", "repeat", "length"])):
            case "change" if data:
                data[at % len(data)] = draw(st.integers(0, 255))
            case "delete":
                del data[at : at + draw(st.integers(1, 40))]
            case "repeat":
                data[at:at] = data[at : at + draw(st.integers(1, 200))]
            case "length":
                data[at : at + 4] = draw(st.integers(0, 2**32 - 1)).to_bytes(4, "little")
            case _:
                data[at:at] = draw(st.binary(min_size=1, max_size=20))
    return bytes(data)


@pytest.mark.parametrize("name", TARGETS)
def test_the_bytes_to_begin_with_are_accepted(name: str) -> None:
    for seed in TARGETS[name].seeds:
        TARGETS[name].read(seed)


@pytest.mark.parametrize("name", TARGETS)
def test_any_bytes_are_read_or_refused(name: str) -> None:
    target = TARGETS[name]

    @settings(max_examples=EXAMPLES)
    @given(mutated(list(target.seeds)))
    def read(data: bytes) -> None:
        target.run(data)

    read()
