from __future__ import annotations

from hypothesis import given

from reactor_runtime.wire.media_header import MediaHeader
from tests.wire.test_containers import header_st


@given(header_st)
def test_fields_round_trip(header: MediaHeader) -> None:
    assert MediaHeader.unpack(header.pack()) == header
