from __future__ import annotations

import pytest

from reactor_runtime.client.retry import Retry


def test_it_waits_longer_after_each_failure_up_to_2_s() -> None:
    retry = Retry(random=lambda: 1.0)
    assert [retry.next_s(at) for at in range(6)] == [0.2, 0.4, 0.8, 1.6, 2.0, 2.0]


@pytest.mark.parametrize(("drawn", "wait_s"), [(0.0, 0.1), (0.5, 0.15), (1.0, 0.2)])
def test_half_of_a_wait_is_random(drawn: float, wait_s: float) -> None:
    assert Retry(random=lambda: drawn).next_s(0) == pytest.approx(wait_s)


def test_a_connection_that_lasted_starts_the_waits_anew() -> None:
    retry = Retry(random=lambda: 1.0)
    retry.next_s(0)
    retry.opened(1)
    assert retry.next_s(2) == 0.4
    retry.opened(3)
    assert retry.next_s(6) == 0.2
