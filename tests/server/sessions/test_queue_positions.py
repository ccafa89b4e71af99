from __future__ import annotations

import json
import random

from reactor_runtime.server.delivery.client import Client, Role
from reactor_runtime.server.delivery.options import ClientOptions
from reactor_runtime.server.sessions.admission import Loss
from reactor_runtime.server.sessions.queue_positions import QueuePositions
from reactor_runtime.server.sessions.wait_queue import WaitQueue
from tests.fakes import FakeClock
from tests.server.admission_fixture import AdmissionFixture, places


class Queue:
    """A wait queue and its positions, and all that its clients were sent."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.wait_queue: WaitQueue[Client] = WaitQueue(10_000)
        self.positions = QueuePositions(self.wait_queue, self.clock)
        self.clients: list[Client] = []
        self.last: dict[Client, tuple[int, int]] = {}

    def come(self, count: int) -> None:
        for _ in range(count):
            client = Client(Role.CONTROLLER, "127.0.0.1", ClientOptions(self.clock))
            self.clients.append(client)
            self.wait_queue.join(client, free=0)
            self.positions.send_changes()
            self.positions.send_position(len(self.clients))

    def leave(self, client: Client) -> None:
        self.clients.remove(client)
        self.positions.forget(client)
        assert self.wait_queue.leave(client)
        self.positions.send_changes()

    def wait(self, seconds: float) -> None:
        self.clock.move_to(self.clock.now() + seconds)

    def take(self) -> list[tuple[int, int]]:
        """Remove and return all positions that wait for the clients."""
        taken = []
        for client in self.clients:
            while (item := client.outbox.take_next()[0]) is not None:
                data = json.loads(str(item))["data"]
                self.last[client] = data["position"], data["length"]
                taken.append(self.last[client])
        return taken


def test_sixteen_clients_get_each_change_at_once() -> None:
    queue = Queue()
    queue.come(16)
    queue.take()
    queue.leave(queue.clients[3])
    assert queue.take() == [(position, 15) for position in range(1, 16)]
    assert queue.clock.pending == 0


def test_a_new_client_in_a_long_queue_gets_its_position_at_once() -> None:
    queue = Queue()
    queue.come(50)
    queue.wait(0.5)
    queue.take()
    queue.come(1)
    assert queue.take() == [(51, 51)]


def test_clients_in_a_long_queue_get_all_changes_of_a_second_as_one() -> None:
    queue = Queue()
    queue.come(50)
    queue.wait(1.5)
    queue.take()
    for _ in range(20):
        queue.leave(queue.clients[0])
        queue.wait(0.049)
    queue.wait(1.5)
    # The first pass begins with the first change, and the second one a second later.
    assert len(queue.take()) <= 2 * 49
    assert [queue.last[client] for client in queue.clients] == [(position, 30) for position in range(1, 31)]


def test_the_first_change_in_a_quiet_long_queue_is_sent_at_once() -> None:
    queue = Queue()
    queue.come(20)
    queue.wait(5.0)
    queue.take()
    queue.leave(queue.clients[0])
    queue.wait(0.0)
    assert queue.take() == [(position, 19) for position in range(1, 20)]


def test_a_thousand_positions_a_second_are_sent_at_most_and_the_last_ones_are_right() -> None:
    queue, source = Queue(), random.Random(1)
    queue.come(3000)
    queue.wait(10.0)
    queue.take()
    for _ in range(100):
        queue.leave(source.choice(queue.clients))
        queue.wait(0.1)
    assert len(queue.take()) <= 10 * 1000 + 20
    queue.wait(10.0)
    queue.take()
    assert [queue.last[client] for client in queue.clients] == [(at, 2900) for at in range(1, 2901)]
    assert queue.clock.pending == 0


def test_a_queue_that_has_become_short_is_sent_its_positions() -> None:
    queue = Queue()
    queue.come(17)
    queue.wait(0.0)
    queue.leave(queue.clients[0])
    queue.take()
    assert [queue.last[client] for client in queue.clients] == [(position, 16) for position in range(1, 17)]


async def test_a_client_that_returns_to_the_same_position_gets_it_again() -> None:
    services = AdmissionFixture(most_waiting=4)
    services.come()
    services.begin()
    second = services.come()
    assert await places(second) == [(1, 1)]
    services.end()
    services.begin()
    services.admission.return_to_queue(second, Loss("its machine has failed"))
    assert await places(second) == [(1, 1)]
