"""The pages of two players in one session: the room, who sits where, and a free seat that is taken."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.server.running import RunningServer, listening, write_project
from tests.server.test_seats import MODEL

from .conftest import open_page
from .fake_server import FakeServer
from .test_served import PIXELS


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    model = MODEL.replace("fps = 30", "fps = 10")
    with listening(write_project(tmp_path_factory.mktemp("seats"), model)) as server:
        server.wait_for("ready in")
        yield server
        server.stop()


def come(page: Page, query: str = "") -> None:
    page.goto(f"/?{query}")
    expect(page.locator("html[data-phase=connected]")).to_be_attached()


def expect_level(page: Page, wanted: int) -> None:
    """Wait for a frame of this gray; a quarter of the bytes of a canvas is its opacity."""
    page.wait_for_function(f"() => Math.abs(({PIXELS})(document.querySelector('canvas')) / 0.75 - {wanted}) < 4")


def test_two_pages_have_a_seat_each_and_the_host_alone_the_controls_for_all(
    browser: Browser, served: RunningServer
) -> None:
    url = f"http://127.0.0.1:{served.port}"
    with open_page(browser, url) as host, open_page(browser, url) as guest, open_page(browser, url) as third:
        come(host)
        expect(host.locator(".seats summary")).to_have_text("Seat 1 of 4")
        expect(host.locator("[name=speed]")).to_be_visible()
        host.locator(".seats summary").click()
        room = host.locator(".seats code").inner_text()
        come(guest, f"room={room}")
        expect(guest.locator(".seats summary")).to_have_text("Seat 2 of 4")
        expect(guest.locator("[name=move]")).to_be_visible()
        expect(guest.locator("[name=speed]")).to_have_count(0)
        guest.locator("[name=move]").fill("80")
        expect_level(guest, 130)
        expect_level(host, 0)
        assert host.locator("[name=move]").input_value() == "0"
        seats = host.locator(".seats li")
        expect(seats.nth(0)).to_have_text("Seat 1, the host: you")
        expect(seats.nth(1)).to_have_text("Seat 2: taken")
        expect(seats.nth(3)).to_have_text("Seat 4: freeTake this seat")
        third.goto(f"/?role=viewer&room={room}&seat=1")
        expect(third.locator(".seats summary")).to_have_text("Watching seat 2")
        expect_level(third, 130)
        third.locator(".seats summary").click()
        third.locator(".seats li").nth(3).get_by_text("Take this seat").click()
        expect(third.locator(".seats summary")).to_have_text("Seat 4 of 4")
        expect(seats.nth(3)).to_have_text("Seat 4: taken")
        guest.close()
        expect(seats.nth(1)).to_have_text("Seat 2: freeTake this seat")


def test_a_viewer_without_the_code_of_a_private_room_can_watch_its_seats_alone(
    browser: Browser, served: RunningServer
) -> None:
    url = f"http://127.0.0.1:{served.port}"
    with open_page(browser, url) as host, open_page(browser, url) as viewer:
        come(host, "room=private")
        expect(host.locator(".seats summary")).to_have_text("Seat 1 of 4")
        viewer.goto("/?role=viewer")
        expect(viewer.locator(".seats summary")).to_have_text("Watching seat 1")
        viewer.locator(".seats summary").click()
        seats = viewer.locator(".seats li")
        expect(seats.nth(1)).to_have_text("Seat 2: freeWatch")
        expect(viewer.get_by_text("Copy the invite link")).to_be_hidden()
        watch = seats.nth(1).get_by_text("Watch")
        address = watch.get_attribute("href") or ""
        assert "session=" in address
        assert "room=" not in address
        watch.click()
        expect(viewer.locator(".seats summary")).to_have_text("Watching seat 2")
        assert "private" not in viewer.content()


def test_a_model_with_one_seat_loads_nothing_about_seats(page: Page, server: FakeServer) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(server.url)
    expect(page.locator("html[data-phase=connected]")).to_be_attached()
    expect(page.locator("#controls [name]").first).to_be_attached()
    assert not [url for url in asked if "seats" in url]
    expect(page.locator(".seats")).to_have_count(0)


SCORES = """
class World(InputState):
    round: int = InputField(default=1, read_only=True)
    speed: int = InputField(default=1, ge=1, le=9)


class Player(InputState):
    score: int = InputField(default=0, ge=0, le=50, read_only=True, widget="bar")
    name: str = ""


class Hit(ModelMessage):
    points: int = MessageField(widget="value", label="Hit", unit="points")


class MyModel(ReactorPipeline):
    state: World
    seat_state: Player
    seats = 2
    fps = 10

    @event(name="shoot", bind=Key("space"))
    async def shoot(self, client: ClientInfo):
        seat = self.seats[client.seat]
        seat.state.score += 10 + client.seat
        self.state.round += 1
        await client.send(Hit(points=10 + client.seat))

    def inference(self):
        while True:
            yield [MyOutput(main_video=gray(60 + 60 * seat.number, 270, 480)) for seat in self.seats]
"""


def values(page: Page) -> Locator:
    return page.get_by_role("group", name="Values").locator(".value:not([hidden])")


def test_each_page_shows_the_values_of_its_seat_and_those_for_all(browser: Browser, tmp_path: Path) -> None:
    with listening(write_project(tmp_path / "project", SCORES)) as server:
        server.wait_for("ready in")
        url = f"http://127.0.0.1:{server.port}"
        with open_page(browser, url) as host, open_page(browser, url) as guest, open_page(browser, url) as viewer:
            come(host)
            come(guest)
            guest.get_by_role("button", name="Shoot").click()
            expect(values(host)).to_have_text(["Round2", "Score0"])
            expect(values(guest)).to_have_text(["Round2", "Score11", "Hit11 points"])
            host.get_by_role("button", name="Shoot").click()
            expect(values(host)).to_have_text(["Round3", "Score10", "Hit10 points"])
            expect(values(guest)).to_have_text(["Round3", "Score11", "Hit11 points"])
            viewer.goto("/?role=viewer&seat=1")
            expect(values(viewer)).to_have_text(["Round3", "Score11"])
        server.stop()
