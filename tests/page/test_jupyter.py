"""`show()` in JupyterLab: cells are run in the browser, and the page of the model plays in the output."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, ViewportSize, expect

from tests.processes import children, descendants, gone
from tests.timeouts import TIMEOUT_S

from .conftest import TIMEOUT_MS

pytestmark = pytest.mark.process

TOKEN = "jupyter"
IMPORTS = """
import numpy as np
from reactor_runtime import *
from reactor_runtime.notebook import show
"""
MODEL = """
class MyOutput(Output):
    main_video: Video

class MyModel(ReactorPipeline):
    state: InputState
    output: MyOutput

    def inference(self):
        while True:
            yield MyOutput(main_video=np.full((32, 32, 3), LEVEL, np.uint8))
"""
# With room for all cells: a frame that JupyterLab has scrolled out of the window, to the next cell, paints nothing.
SIZE = ViewportSize(width=1280, height=2400)
HAS_LEVEL = """([canvas, level]) =>
    canvas.width > 0 && Math.abs(canvas.getContext("2d").getImageData(0, 0, 1, 1).data[0] - level) < 4"""


def notebook(*cells: str) -> str:
    """Return the file of a notebook with these cells."""
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return json.dumps(
        {
            "cells": [
                {
                    "id": f"cell-{number}",
                    "cell_type": "code",
                    "source": cell,
                    "metadata": {},
                    "outputs": [],
                    "execution_count": None,
                }
                for number, cell in enumerate(cells)
            ],
            "metadata": {"kernelspec": kernel},
            "nbformat": 4,
            "nbformat_minor": 5,
        }
    )


@contextlib.contextmanager
def jupyter(folder: Path) -> Iterator[tuple[str, int]]:
    """Start JupyterLab in a folder; return its URL and process."""
    places = {f"JUPYTER_{name}_DIR": str(folder / name) for name in ("CONFIG", "DATA", "RUNTIME")}
    options = ["--no-browser", "--allow-root", "--ServerApp.port=0", f"--IdentityProvider.token={TOKEN}"]
    process = subprocess.Popen(
        [sys.executable, "-m", "jupyterlab", *options, f"--ServerApp.root_dir={folder}"],
        env={**os.environ, **places, "IPYTHONDIR": str(folder / "ipython")},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    try:
        url = next(word for line in process.stderr for word in line.split() if word.startswith("http://127.0.0.1:"))
        yield url.partition("/lab")[0], process.pid
    finally:
        process.terminate()
        process.communicate(timeout=TIMEOUT_S)


def run_next_cells(page: Page, count: int) -> None:
    for _ in range(count):
        page.keyboard.press("Shift+Enter")


def expect_level(page: Page, level: int) -> None:
    """Expect the page in the output to paint frames of this level."""
    canvas = page.frame_locator(".jp-OutputArea iframe").locator("canvas[data-seq]")
    handle = canvas.element_handle()
    assert handle is not None
    frame = handle.owner_frame()
    assert frame is not None
    frame.wait_for_function(HAS_LEVEL, arg=[handle, level])


def test_the_page_plays_in_the_output_until_the_kernel_is_restarted(browser: Browser, tmp_path: Path) -> None:
    cells = (IMPORTS, MODEL.replace("LEVEL", "100"), "server = show(MyModel)", MODEL.replace("LEVEL", "200"))
    (tmp_path / "model.ipynb").write_text(notebook(*cells))
    with jupyter(tmp_path) as (url, jupyter_pid), browser.new_context(viewport=SIZE) as context:
        page = context.new_page()
        page.set_default_timeout(TIMEOUT_MS)
        page.goto(f"{url}/doc/tree/model.ipynb?token={TOKEN}")
        expect(page.get_by_text("| Idle")).to_be_visible()
        page.locator(".jp-InputPrompt").first.click()
        run_next_cells(page, 3)
        expect_level(page, 100)
        run_next_cells(page, 1)
        expect_level(page, 200)
        (kernel,) = children(jupyter_pid)
        others = descendants(kernel)
        assert others
        # The last one was followed by a new cell, which is edited.
        for key in ("Escape", "0", "0"):
            page.keyboard.press(key)
        page.get_by_role("button", name="Confirm Kernel Restart").click()
        for pid in others:
            gone(pid)
