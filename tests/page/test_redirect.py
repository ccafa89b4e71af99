"""The page of a front: frames and files of the server that it is redirected to, and the next one after its loss."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Browser, expect

from tests.clients.fake_front import LOST, FakeFront
from tests.server.running import serving, started, write_project

from .conftest import open_page
from .test_files import MODEL, SHOWS_ON_CANVAS


def test_the_page_goes_on_at_the_worker_and_at_another_after_its_loss(browser: Browser, tmp_path: Path) -> None:
    with FakeFront() as front:
        options = ("--allow-origin", front.url)
        first = started(write_project(tmp_path / "first", MODEL), *options)
        second = serving(
            write_project(tmp_path / "second", MODEL.replace("level: int = 10", "level: int = 60")), *options
        )
        with first as worker, second as next_worker, open_page(browser, front.url) as page:
            worker.wait_for("ready in")
            front.workers.put(f"http://127.0.0.1:{worker.port}")
            page.goto("/")
            expect(page.locator("canvas[data-seq]")).to_be_attached()
            page.wait_for_function(SHOWS_ON_CANVAS, arg=10)
            (tmp_path / "level").write_bytes(bytes([200]))
            page.locator('[data-event="set_picture"] [type=file]').set_input_files(tmp_path / "level")
            page.wait_for_function(SHOWS_ON_CANVAS, arg=200)
            worker.process.kill()
            expect(page.locator("html[data-phase=waiting]")).to_be_attached()
            expect(page.locator("#notice")).to_contain_text(LOST)
            front.workers.put(f"http://127.0.0.1:{next_worker.port}")
            page.wait_for_function(SHOWS_ON_CANVAS, arg=60)
            expect(page.locator("#notice")).to_be_hidden()
    assert front.secrets == [[], ["t-1.secret"]]
