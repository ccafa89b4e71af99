"""Pages in seats: video of each, a connection that breaks, and an invite link on a phone."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.client.cable import Cable
from tests.server.running import RunningServer, listening, write_project
from tests.timeouts import TIMEOUT_S

from .conftest import open_page
from .test_phone import PHONES, SMALL
from .test_seats import come, expect_level
from .test_video_served import count_patiently

MODEL = """
class Player(InputState):
    move: int = InputField(default=0, ge=0, le=100)


class MyModel(ReactorPipeline):
    seat_state: Player
    seats = 3
    fps = 30

    def inference(self):
        while True:
            yield [MyOutput(main_video=gray(50 * seat.number + seat.state.move, 96, 160)) for seat in self.seats]
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    project = write_project(tmp_path_factory.mktemp("seats"), MODEL)
    with listening(project, "--codec", "always", "--resume-grace", "20") as server:
        server.wait_for("ready in")
        yield server
        server.stop()


@contextlib.contextmanager
def cable_to(server: RunningServer) -> Iterator[tuple[str, Callable[[], object]]]:
    """Lay a cable to a server, on a thread; yields its address, and a function that breaks its connections."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    cable = Cable(server.port)
    laid = cable.laid()
    url = asyncio.run_coroutine_threadsafe(laid.__aenter__(), loop).result(TIMEOUT_S)
    try:
        yield url, lambda: loop.call_soon_threadsafe(cable.cut)
    finally:
        asyncio.run_coroutine_threadsafe(laid.__aexit__(None, None, None), loop).result(TIMEOUT_S)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(TIMEOUT_S)
        loop.close()


def shows_video(page: Page) -> None:
    before = page.evaluate("decoded")
    page.wait_for_function("before => decoded > before + 10", arg=before)
    assert page.evaluate("failed") == 0


def test_each_seat_gets_its_own_video_and_a_player_resumes_in_its_seat(browser: Browser, served: RunningServer) -> None:
    direct = f"http://127.0.0.1:{served.port}"
    with (
        cable_to(served) as (url, cut),
        open_page(browser, direct) as host,
        open_page(browser, url) as guest,
        open_page(browser, direct) as third,
    ):
        for each in (host, guest):
            count_patiently(each)
            come(each)
            shows_video(each)
        guest.locator("[name=move]").fill("80")
        expect_level(guest, 130)
        expect_level(host, 0)
        cut()
        host.locator(".seats summary").click()
        expect(guest.locator("html[data-phase=connected]")).to_be_attached()
        expect(guest.locator(".seats summary")).to_have_text("Seat 2 of 3")
        expect(host.locator(".seats li").nth(1)).to_have_text("Seat 2: taken")
        expect_level(guest, 130)
        assert guest.locator("[name=move]").input_value() == "80"
        shows_video(guest)
        room = host.locator(".seats code").inner_text()
        count_patiently(third)
        come(third, f"room={room}")
        expect(third.locator(".seats summary")).to_have_text("Seat 3 of 3")
        shows_video(third)
        expect_level(third, 100)
        shows_video(host)


def test_an_invite_link_opens_a_seat_on_a_phone(browser: Browser, served: RunningServer) -> None:
    url = f"http://127.0.0.1:{served.port}"
    served.until(lambda: served.health()[1]["session"] is None, "the session before to end")
    with open_page(browser, url) as host, open_page(browser, url, phone=True) as phone:
        come(host)
        host.locator(".seats summary").click()
        come(phone, f"room={host.locator('.seats code').inner_text()}")
        expect(phone.locator(".seats summary")).to_have_text("Seat 2 of 3")
        expect(phone.locator(".metrics-chip")).to_contain_text("fps")
        phone.locator(".seats summary").click()
        for width, height in PHONES.values():
            phone.set_viewport_size({"width": width, "height": height})
            # A page that is too wide is shown smaller on a phone.
            phone.wait_for_function("width => innerWidth === width", arg=width)
            expect(phone.get_by_text("Take this seat")).to_be_in_viewport(ratio=1)
            assert phone.evaluate(SMALL) == []
        phone.get_by_text("Take this seat").tap()
        expect(phone.locator(".seats summary")).to_have_text("Seat 3 of 3")
