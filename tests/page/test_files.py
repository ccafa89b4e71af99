"""The picker of files, against a real server: what is picked reaches the model, and what is refused says why."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.server.running import RunningServer, serving, write_project

from .conftest import DRAWER, TIMEOUT_MS, open_page
from .test_image import SHOWS

MODEL = """
class MyState(InputState):
    picture: UploadedFile | None = InputField(default=None, description="Its first byte is the level")
    _level: int = 10


class Took(ModelMessage):
    name: str
    size_bytes: int


class MyModel(ReactorPipeline):
    state: MyState
    fps = 10

    @event(name="take", description="Take a file once")
    def take(self, file: UploadedFile, note: str = "") -> Took:
        if not file.size_bytes:
            raise CommandError("empty", "there is nothing in it")
        return Took(file.name, file.size_bytes)

    def inference(self):
        while True:
            picture = self.state.picture
            yield gray(self.state._level if picture is None else picture.open().read(1)[0])
"""
RENAME = """() => document.addEventListener("change", ({ target }) => {
    const picked = new DataTransfer();  // no file system has names as long as this
    picked.items.add(new File(["1"], "x".repeat(300)));
    target.files = picked.files;
}, { capture: true })"""
SHOWS_ON_CANVAS = SHOWS.replace("#watching", "canvas").replace("if (!image.naturalWidth) return false;", "")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with serving(write_project(tmp_path_factory.mktemp("files"), MODEL)) as server:
        yield server


@pytest.fixture
def page(browser: Browser, served: RunningServer) -> Iterator[Page]:
    served.wait_for_health("ready")
    with open_page(browser, f"http://127.0.0.1:{served.port}") as page:
        page.goto("/")
        expect(page.locator("html[data-phase=connected]")).to_be_attached()
        expect(page.locator("canvas[data-seq]")).to_be_attached()
        yield page


def test_a_picked_file_is_the_value_of_the_field(page: Page, tmp_path: Path) -> None:
    page.wait_for_function(SHOWS_ON_CANVAS, arg=10)
    control = page.locator('[data-event="set_picture"]')
    for level, size in ((200, 10), (90, 3 << 20)):
        (tmp_path / "level").write_bytes(bytes([level]) * size)
        with page.expect_file_chooser() as chooser:
            control.locator("[type=file]").click()
        chooser.value.set_files(tmp_path / "level")
        page.wait_for_function(SHOWS_ON_CANVAS, arg=level)
    control.get_by_role("button", name="Remove").click()
    page.wait_for_function(SHOWS_ON_CANVAS, arg=10)
    expect(control.get_by_role("button", name="Remove")).to_be_hidden()
    expect(control.get_by_label("Reset")).to_be_hidden()


def test_a_link_leaves_out_files_that_only_this_session_knows(page: Page, tmp_path: Path) -> None:
    (tmp_path / "level").write_bytes(bytes([200]))
    page.locator('[data-event="set_picture"] [type=file]').set_input_files(tmp_path / "level")
    page.wait_for_function(SHOWS_ON_CANVAS, arg=200)
    expect(page.locator("html[data-live]")).to_be_attached()
    page.get_by_role("button", name="Links").click()
    expect(page.get_by_label("Link with these values", exact=True)).to_have_value(page.url)


def test_a_form_sends_its_file_and_shows_what_is_said_of_it(page: Page, tmp_path: Path) -> None:
    form = page.locator('[data-event="take"]')
    form.get_by_role("button", name="Take").click()
    expect(form.locator('[data-error-param="file"]')).to_have_text("missing")
    (tmp_path / "cat & dog.txt").write_bytes(b"")
    form.locator("[type=file]").set_input_files(tmp_path / "cat & dog.txt")
    form.get_by_role("button", name="Take").click()
    expect(form.locator('[data-error-for="take"]')).to_have_text("there is nothing in it")
    (tmp_path / "cat & dog.txt").write_bytes(b"both")
    form.locator("[type=file]").set_input_files(tmp_path / "cat & dog.txt")
    form.get_by_role("button", name="Take").click()
    expect(page.locator("#log")).to_contain_text('"name":"cat & dog.txt"')


def test_a_file_that_changed_after_it_was_picked_is_asked_for_again(page: Page, tmp_path: Path) -> None:
    form = page.locator('[data-event="take"]')
    (tmp_path / "notes.txt").write_bytes(b"one")
    form.locator("[type=file]").set_input_files(tmp_path / "notes.txt")
    (tmp_path / "notes.txt").unlink()
    form.get_by_role("button", name="Take").click()
    expect(form.locator('[data-error-for="take"]')).to_contain_text("notes.txt has changed or gone")


DROP = """(area) => {
    const dropped = new DataTransfer();
    dropped.items.add(new File([Uint8Array.of(150)], "level"));
    area.dispatchEvent(new DragEvent("drop", { dataTransfer: dropped, bubbles: true, cancelable: true }));
}"""


def test_a_file_can_be_dropped(page: Page) -> None:
    area = page.locator('[data-event="set_picture"] .file')
    area.evaluate(DROP)
    page.wait_for_function(SHOWS_ON_CANVAS, arg=150)
    expect(area).to_contain_text("level · 1 B")


def test_a_file_the_server_refuses_is_said_beside_the_control(
    browser: Browser, served: RunningServer, tmp_path: Path
) -> None:
    served.wait_for_health("ready")
    (tmp_path / "file").write_bytes(b"1")
    page = browser.new_page(base_url=f"http://127.0.0.1:{served.port}")  # the browser complains itself of the answer
    page.set_default_timeout(TIMEOUT_MS)
    page.add_init_script(DRAWER)
    page.goto("/")
    expect(page.locator("html[data-phase=connected]")).to_be_attached()
    page.evaluate(RENAME)
    page.locator('[data-event="set_picture"] [type=file]').set_input_files(tmp_path / "file")
    expect(page.locator('[data-error-for="set_picture"]')).to_contain_text("no longer than 255 characters")
    page.close()
