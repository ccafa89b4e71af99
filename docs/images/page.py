"""Make the images of the page, all of them or those that are named: `.venv/bin/python docs/images/page.py trace share`.

It opens templates and the states of the page's tests in Chromium, so it needs the extra `test`, and a machine that does
nothing else: the images show frames a second and delays.
"""

from __future__ import annotations

import contextlib
import io
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Locator, Page, ViewportSize, sync_playwright

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))

from tests.page.conftest import DRAWER, launch  # noqa: E402
from tests.page.fake_server import FakeServer  # noqa: E402
from tests.page.states import STATES  # noqa: E402
from tests.server.running import scaffolded, serving  # noqa: E402

DESKTOP, UPRIGHT, SIDEWAYS = (1280, 800), (390, 620), (844, 360)
PROMPTS = ("a coral reef in the evening sun", "northern lights over a lake")
GAP = 8


@contextlib.contextmanager
def opened(browser: Browser, size: tuple[int, int], scheme: str, phone: bool = False) -> Iterator[Page]:
    page = browser.new_page(
        viewport=ViewportSize(width=size[0], height=size[1]),
        color_scheme="dark" if scheme == "dark" else "light",
        has_touch=phone,
        is_mobile=phone,
        device_scale_factor=1.5 if phone else 1,
    )
    try:
        yield page
    finally:
        page.close()


@contextlib.contextmanager
def template(
    browser: Browser, name: str, title: str, size: tuple[int, int], scheme: str, phone: bool = False
) -> Iterator[Page]:
    """Serve a template, and open its page when it plays."""
    with (
        tempfile.TemporaryDirectory() as folder,
        serving(scaffolded(Path(folder), name, title)) as server,
        opened(browser, size, scheme, phone) as page,
    ):
        page.goto(f"http://127.0.0.1:{server.port}/")
        page.locator("canvas[data-seq]").wait_for()
        page.locator(".tools").wait_for(state="attached")
        page.wait_for_timeout(3000)
        # What has faded comes back.
        page.mouse.move(640, 300)
        yield page


def save(name: str, shown: Page | Locator) -> None:
    shown.screenshot(path=HERE / f"{name}.jpg", type="jpeg", quality=82)


def save_states(browser: Browser, name: str, states: dict[str, str], size: tuple[int, int], columns: int) -> None:
    """Save the page in several states of its tests, each with a colour scheme, beside and below each other."""
    images = []
    for state, scheme in states.items():
        with FakeServer() as server, opened(browser, (1240, 780), scheme) as page:
            page.add_init_script(DRAWER)
            STATES[state](page, server)
            page.wait_for_timeout(500)
            images.append(Image.open(io.BytesIO(page.screenshot())).convert("RGB").resize(size))
    rows = -(-len(images) // columns)
    sheet = Image.new("RGB", (columns * (size[0] + GAP) - GAP, rows * (size[1] + GAP) - GAP), (128, 128, 128))
    for idx, image in enumerate(images):
        sheet.paste(image, (idx % columns * (size[0] + GAP), idx // columns * (size[1] + GAP)))
    sheet.save(HERE / f"{name}.jpg", quality=82)


def send_prompts(page: Page, wait_ms: int) -> None:
    for prompt in PROMPTS[::-1]:
        page.get_by_role("textbox", name="Prompt", exact=True).fill(prompt)
        page.keyboard.press("Enter")
        page.wait_for_timeout(wait_ms)


def first(browser: Browser) -> None:
    with template(browser, "pipeline", "my-model", (1280, 720), "dark") as page:
        page.locator("canvas[data-seq]").click(position={"x": 300, "y": 420})
        page.wait_for_timeout(700)
        save("first", page)


def playground(browser: Browser) -> None:
    with template(browser, "prompt", "my-diffusion", DESKTOP, "dark") as page:
        send_prompts(page, 3000)
        save("playground", page)


def share(browser: Browser) -> None:
    with template(browser, "prompt", "my-diffusion", DESKTOP, "dark") as page:
        send_prompts(page, 3000)
        page.get_by_role("button", name="Share").click()
        page.wait_for_timeout(500)
        save("share", page)


def figures(browser: Browser) -> None:
    with template(browser, "prompt", "my-diffusion", (1320, 1000), "dark") as page:
        page.locator(".metrics-chip").click()
        for _ in range(4):
            send_prompts(page, 2500)
        save("figures", page.locator("#metrics"))


def trace(browser: Browser) -> None:
    with template(browser, "prompt", "my-diffusion", DESKTOP, "light") as page:
        page.get_by_role("button", name="Controls").click()
        slider = page.locator("[name=strength]")
        for idx in range(20):
            slider.fill(f"{0.3 + 0.03 * idx:.2f}")
            page.wait_for_timeout(450)
        page.keyboard.press("Escape")
        page.locator("canvas[data-seq]").click()
        page.keyboard.press("t")
        page.wait_for_timeout(500)
        save("trace", page.locator(".trace"))


def camera(browser: Browser) -> None:
    with template(browser, "webcam", "my-filter", (1176, 700), "dark") as page:
        save("camera", page)


def inputs(browser: Browser) -> None:
    with template(browser, "world", "my-world", (1176, 735), "light") as page:
        page.keyboard.down("w")
        page.wait_for_timeout(1500)
        save("inputs", page)


def phone(browser: Browser) -> None:
    with template(browser, "world", "my-world", UPRIGHT, "light", phone=True) as page:
        save("phone", page)


def phone_side(browser: Browser) -> None:
    with template(browser, "world", "my-world", SIDEWAYS, "dark", phone=True) as page:
        save("phone-side", page)


def roles(browser: Browser) -> None:
    save_states(browser, "roles", {"watching": "dark", "faults": "light"}, (762, 479), 2)


def states(browser: Browser) -> None:
    shown = {
        "loading": "light",
        "waiting": "dark",
        "asked": "light",
        "ended": "dark",
        "failed": "light",
        "offline": "dark",
    }
    save_states(browser, "states", shown, (762, 479), 2)


IMAGES: dict[str, Callable[[Browser], None]] = {
    image.__name__: image
    for image in (first, playground, share, figures, trace, camera, inputs, phone, phone_side, roles, states)
}


def main() -> None:
    with sync_playwright() as playwright:
        browser = launch(playwright.chromium)
        for name in sys.argv[1:] or IMAGES:
            IMAGES[name](browser)
            sys.stdout.write(f"{name}\n")
            sys.stdout.flush()
        browser.close()


if __name__ == "__main__":
    main()
