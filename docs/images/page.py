"""Make the images of the page, all of them or those that are named: `.venv/bin/python docs/images/page.py share`.

It opens templates and the states of the page's tests in Chromium, so it needs the extra `test`, and a machine that does
nothing else: the images show frames a second and delays.
"""

from __future__ import annotations

import contextlib
import io
import math
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from PIL import Image, ImageDraw
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
def served(browser: Browser, project: Path, size: tuple[int, int], scheme: str, phone: bool = False) -> Iterator[Page]:
    """Serve a project, and open its page."""
    with serving(project) as server, opened(browser, size, scheme, phone) as page:
        page.goto(f"http://127.0.0.1:{server.port}/")
        page.locator(".tools").wait_for(state="attached")
        yield page


@contextlib.contextmanager
def template(
    browser: Browser, name: str, title: str, size: tuple[int, int], scheme: str, phone: bool = False
) -> Iterator[Page]:
    """Serve a template, and open its page when it plays."""
    with (
        tempfile.TemporaryDirectory() as folder,
        served(browser, scaffolded(Path(folder), name, title), size, scheme, phone) as page,
    ):
        page.locator("canvas[data-seq]").wait_for()
        page.wait_for_timeout(3000)
        # What has faded comes back.
        page.mouse.move(640, 300)
        page.wait_for_timeout(400)
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
        page.get_by_role("button", name="Links").click()
        page.wait_for_timeout(500)
        save("share", page)


def figures(browser: Browser) -> None:
    with template(browser, "prompt", "my-diffusion", (1320, 1000), "dark") as page:
        page.locator(".metrics-chip").click()
        for _ in range(4):
            send_prompts(page, 2500)
        save("figures", page.locator("#metrics"))


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


def tutorial(plain: Browser) -> None:
    with tempfile.TemporaryDirectory() as folder:
        video = Path(folder) / "face.mjpeg"
        video.write_bytes(b"".join(map(nodding_face, range(60))))
        devices = "--use-fake-device-for-media-stream=fps=30", "--use-fake-ui-for-media-stream"
        browser = launch(plain.browser_type, *devices, f"--use-file-for-fake-video-capture={video}")
        for chapter in sorted((HERE.parents[1] / "examples" / "tutorial").iterdir()):
            # The server writes its log into the project.
            tutorial_chapter(browser, Path(shutil.copytree(chapter, Path(folder) / chapter.name)))
        browser.close()


def tutorial_chapter(browser: Browser, project: Path) -> None:
    number = project.name[0]
    with served(browser, project, (1120, 640), "dark") as page:
        if number == "2":
            page.goto(page.url + '?set={"colour":"rose"}')
        if number == "3":
            page.get_by_role("button", name="Use your camera").click()
        page.locator("canvas[data-seq]").wait_for()
        # This machine's figures, and the path of the video, are not of the model.
        page.locator(".metrics-chip").evaluate("chip => (chip.hidden = true)")
        page.locator("[data-input] option:checked").evaluate_all(
            "options => options[0] && (options[0].text = 'Camera')"
        )
        if number == "4":
            page.keyboard.down("w")
        page.wait_for_timeout(2000)
        if number == "2":
            page.keyboard.down("ArrowRight")
        if number != "4":
            page.mouse.move(640, 300)
        page.wait_for_timeout(700)
        save(f"tutorial-{number}", page)


def nodding_face(idx: int) -> bytes:
    """Return one of 60 frames of a face that leans to the left and to the right, as JPEG."""
    image = Image.new("RGB", (640, 480), (54, 70, 110))
    draw = ImageDraw.Draw(image)
    draw.ellipse((200, 90, 440, 390), fill=(240, 190, 140))
    for x in (265, 355):
        draw.ellipse((x - 5, 190, x + 25, 235), fill=(40, 40, 60))
    draw.arc((260, 230, 380, 340), 20, 160, fill=(150, 50, 60), width=12)
    draw.polygon([(190, 170), (320, 20), (450, 170)], fill=(250, 120, 60))
    image = image.rotate(35 * math.sin(2 * math.pi * idx / 60), center=(320, 460), fillcolor=(54, 70, 110))
    file = io.BytesIO()
    image.save(file, "JPEG", quality=90)
    return file.getvalue()


IMAGES: dict[str, Callable[[Browser], None]] = {
    image.__name__: image
    for image in (first, playground, share, figures, camera, inputs, phone, phone_side, roles, states, tutorial)
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
