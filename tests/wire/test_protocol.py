from __future__ import annotations

import pytest

from reactor_runtime.errors import WireError
from reactor_runtime.errors.codes import ErrorCode
from reactor_runtime.wire.protocol import SUBPROTOCOL, CloseCode, choose_subprotocol


def test_no_offer_is_accepted_without_subprotocol() -> None:
    assert choose_subprotocol([]) is None


@pytest.mark.parametrize("offered", [["reactor.v1"], ["other", "reactor.v1"]], ids=str)
def test_ours_is_chosen_among_others(offered: list[str]) -> None:
    assert choose_subprotocol(offered) == SUBPROTOCOL


@pytest.mark.parametrize("offered", [["other"], ["reactor.v2", "REACTOR.V1"], [""]], ids=str)
def test_only_unknown_ones_are_refused(offered: list[str]) -> None:
    with pytest.raises(WireError, match=r"offer reactor\.v1 or none"):
        choose_subprotocol(offered)


def test_codes_are_those_of_the_specification() -> None:
    assert {int(code) for code in CloseCode} == {1000, 1001, 1009, 1011, 1013, 4400, 4401, 4403, 4408, 4429}
    assert {str(code) for code in ErrorCode} == {
        "invalid_json", "invalid_message", "unknown_event", "invalid_event", "not_controller", "rate_limited",
        "bad_media", "unknown_track", "model_error", "internal_error", "unresolved_upload",
        "not_ready", "refused", "command_failed", "failed",
    }  # fmt: skip
