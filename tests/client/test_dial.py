from __future__ import annotations

import pytest

from reactor_runtime.client.dial import Retry


def test_the_wait_doubles_after_each_failure_up_to_2_s() -> None:
    retry = Retry(random=lambda: 1.0)
    assert [retry.next_wait_s(at) for at in range(6)] == [0.2, 0.4, 0.8, 1.6, 2.0, 2.0]


@pytest.mark.parametrize(("drawn", "wait_s"), [(0.0, 0.1), (0.5, 0.15), (1.0, 0.2)])
def test_half_of_each_wait_is_random(drawn: float, wait_s: float) -> None:
    assert Retry(random=lambda: drawn).next_wait_s(0) == pytest.approx(wait_s)


def test_a_stable_connection_resets_the_waits() -> None:
    retry = Retry(random=lambda: 1.0)
    retry.next_wait_s(0)
    retry.on_connected(1)
    assert retry.next_wait_s(2) == 0.4
    retry.on_connected(3)
    assert retry.next_wait_s(6) == 0.2
