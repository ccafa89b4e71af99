from __future__ import annotations

import itertools

import pytest

from reactor_runtime.client.errors import Busy, ClientError, ConnectionLost, Refused, SessionEnded
from reactor_runtime.client.retry import Retry, final


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (1000, SessionEnded),
        (1001, SessionEnded),
        (1009, ConnectionLost),
        (1011, SessionEnded),
        (1013, ConnectionLost),
        (4401, Refused),
        (4403, Refused),
        (4429, ConnectionLost),
    ],
)
def test_what_the_server_closes_is_final(code: int, kind: type[ClientError]) -> None:
    error = final(code, "the reason", welcomed=True)
    assert type(error) is kind
    assert "the reason" in error.message


def test_a_full_server_is_busy_for_who_was_not_let_in() -> None:
    assert isinstance(final(1013, "", welcomed=False), Busy)


@pytest.mark.parametrize("code", [1005, 1006, 4408])
def test_what_breaks_is_tried_again(code: int) -> None:
    assert final(code, "", welcomed=True) is None


def test_it_waits_longer_after_each_failure_up_to_a_limit() -> None:
    retry = Retry()
    waits = [retry.begin(0, None), *(retry.after_failure(1) for _ in range(6))]
    assert waits == [0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0]
    assert retry.begin(1, None) == 0.1


def test_it_gives_up_when_the_session_is_no_longer_kept() -> None:
    retry = Retry()
    retry.begin(100, 5.0)
    times = itertools.takewhile(lambda at: retry.after_failure(at) is not None, itertools.count(100))
    assert list(times) == [100, 101, 102, 103, 104]
