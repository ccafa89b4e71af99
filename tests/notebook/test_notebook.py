"""`show()` in a real kernel: the page is in the output, the server is replaced, and it ends with the kernel."""

from __future__ import annotations

import ast
import asyncio
import re
import signal
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.manager import KernelManager

from reactor_runtime.errors import UsageError
from reactor_runtime.notebook import show
from tests.docs.snippets import one
from tests.processes import descendants, gone
from tests.server.client import client
from tests.timeouts import TIMEOUT_S

pytestmark = [pytest.mark.process, pytest.mark.filterwarnings("ignore::DeprecationWarning:jupyter_client")]

IMPORTS = """
import numpy as np
from helpers import SIZE
from reactor_runtime import *
from reactor_runtime.notebook import show
"""
OUTPUT = """
class MyOutput(Output):
    main_video: Video

def gray(level):
    return np.full((SIZE, SIZE, 3), level, np.uint8)
"""
MODEL = """
class MyModel(ReactorPipeline):
    state: InputState
    output: MyOutput

    def load(self, config):
        self.level = config["level"]
        print("loaded with", config)

    def inference(self):
        while True:
            yield MyOutput(main_video=gray(self.level + {more}))
"""


class Kernel:
    """A kernel that executes cells, and returns what they print and show."""

    def __init__(self, folder: Path) -> None:
        self.manager = KernelManager(kernel_name="python3")
        self.manager.start_kernel(cwd=str(folder))
        self.client = self.manager.blocking_client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=TIMEOUT_S)

    def execute(self, cell: str) -> str:
        """Execute a cell; return its output as text, HTML before plain text."""
        parts: list[str] = []

        def keep(message: dict[str, Any]) -> None:
            content = message["content"]
            match message["msg_type"]:
                case "stream":
                    parts.append(content["text"])
                case "display_data" | "execute_result":
                    parts.append(content["data"].get("text/html") or content["data"]["text/plain"])
                case "error":
                    parts.append(f"{content['ename']}: {content['evalue']}")

        self.client.execute_interactive(cell, timeout=TIMEOUT_S, output_hook=keep)
        return "\n".join(parts)

    def value(self, expression: str) -> Any:
        """Return the value of an expression, a literal; what a server prints meanwhile is no part of it."""
        reply = self.client.execute_interactive(
            "", timeout=TIMEOUT_S, user_expressions={"value": expression}, output_hook=lambda _: None
        )
        return ast.literal_eval(reply["content"]["user_expressions"]["value"]["data"]["text/plain"])

    def close(self) -> None:
        self.client.stop_channels()
        if self.manager.is_alive():
            self.manager.shutdown_kernel(now=True)
        self.manager.cleanup_resources()


@pytest.fixture
def kernel(tmp_path: Path) -> Iterator[Kernel]:
    (tmp_path / "helpers.py").write_text("SIZE = 32\n")
    kernel = Kernel(tmp_path)
    for cell in (IMPORTS, OUTPUT, MODEL.replace("{more}", "0")):
        assert kernel.execute(cell) == ""
    yield kernel
    kernel.close()


def url_in(output: str) -> str:
    """Return the address of the page in the output of a cell, which links to it and has it in a frame."""
    linked: list[str] = re.findall(r'<a href="(http://127[^"]+)"', output)
    framed: list[str] = re.findall(r'<iframe[^>]*src="(http://127[^"]+)"', output)
    assert len(linked) == 1
    assert linked == framed
    return linked[0]


def policy_of(url: str) -> str:
    with urllib.request.urlopen(url, timeout=TIMEOUT_S) as page:
        policy: str = page.headers["Content-Security-Policy"]
        return policy


def is_folder(path: str) -> bool:
    return Path(path).is_dir()


async def level_at(url: str) -> float:
    base, _, token = url.partition("/?token=")
    async with client(f"{base.replace('http', 'ws')}/ws", token=token) as controller:
        return (await controller.frame()).level


async def until_level(url: str, level: int) -> None:
    """Read frames until one has a level, as after a reload."""
    async with asyncio.timeout(TIMEOUT_S):
        while abs(await level_at(url) - level) >= 3:
            pass


async def test_the_page_of_a_class_of_a_cell_is_shown_until_the_kernel_ends(kernel: Kernel) -> None:
    first = url_in(kernel.execute("server = show(MyModel, config={'level': 100})"))
    assert "frame-ancestors 'self' *" in policy_of(first)
    assert abs(await level_at(first) - 100) < 3
    kernel.manager.interrupt_kernel()
    assert abs(await level_at(first) - 100) < 3
    kernel.execute(MODEL.replace("{more}", "50"))
    await until_level(first, 150)
    assert url_in(kernel.execute("server = show(MyModel, config={'level': 100})")) == first
    kernel.execute("def gray(level):\n    return np.full((SIZE, SIZE, 3), level - 40, np.uint8)")
    await until_level(first, 110)
    second = url_in(kernel.execute("server = show(MyModel, config={'level': 20})"))
    assert abs(await level_at(second) - 30) < 3
    with pytest.raises(urllib.error.URLError):
        policy_of(first)
    others = descendants(kernel.value("__import__('os').getpid()"))
    assert others
    folder = kernel.value("server._folder")
    assert is_folder(folder)
    kernel.manager.signal_kernel(signal.SIGKILL)
    for pid in others:
        gone(pid)
    assert not is_folder(folder)


async def test_a_class_of_a_file_is_served_until_its_options_change(kernel: Kernel, tmp_path: Path) -> None:
    (tmp_path / "my_model.py").write_text(f"{IMPORTS}\n{OUTPUT}\n{MODEL.replace('{more}', '0')}")
    kernel.execute("from my_model import MyModel")
    first = url_in(kernel.execute("server = show(MyModel, config={'level': 100})"))
    assert abs(await level_at(first) - 100) < 3
    assert url_in(kernel.execute("server = show(MyModel, config={'level': 100})")) == first
    (tmp_path / "my_model.py").write_text(f"{IMPORTS}\n{OUTPUT}\n{MODEL.replace('{more}', '50')}")
    await until_level(first, 150)
    second = url_in(kernel.execute("server = show(MyModel, config={'level': 100.0})"))
    assert second != first
    kernel.execute(MODEL.replace("{more}", "0"))
    assert url_in(kernel.execute("server = show(MyModel, config={'level': 100.0})")) != second


async def test_a_number_of_the_config_is_one_in_the_model(kernel: Kernel) -> None:
    kernel.execute(
        MODEL.replace('self.level = config["level"]', 'self.level = config["level"] * 1e22').replace("{more}", "0")
    )
    url = url_in(kernel.execute("server = show(MyModel, config={'level': 2e-20})"))
    assert abs(await level_at(url) - 200) < 3


async def test_a_class_in_a_cell_with_magics_is_served(kernel: Kernel) -> None:
    magics = "%%capture printed\n\n%%time\nhere = !pwd\n%precision 3\n"
    kernel.execute(magics + MODEL.replace("{more}", "50"))
    kernel.execute("%%writefile not_executed.py\n" + MODEL.replace("{more}", "90"))
    assert abs(await level_at(url_in(kernel.execute("server = show(MyModel, config={'level': 100})"))) - 150) < 3


async def test_the_cell_of_the_docs_shows_its_model(kernel: Kernel) -> None:
    assert abs(await level_at(url_in(kernel.execute(one("serving.md", "cell.py").text))) - 128) < 3


def test_a_model_is_run_step_by_step_in_a_cell(kernel: Kernel) -> None:
    cell = "with PipelineExecutor(MyModel, {'level': 9}) as ex: ex.connect(); print(next(ex).output.main_video.max())"
    assert kernel.execute(cell).split() == ["loaded", "with", "{'level':", "9}", "9"]


def test_a_class_that_can_not_be_served_is_explained_in_the_cell(kernel: Kernel) -> None:
    output = kernel.execute("show(MyModel, config={'level': 100}, port='x')")
    assert 'UsageError: port: "x" is not a whole number' in output
    output = kernel.execute("show(MyModel, config={'level': 100}, ssl_keyfile='key.pem')")
    assert "UsageError: --ssl-keyfile without a certificate" in output
    output = kernel.execute("show(MyModel, config={'level': 100}, ssl_certfile='missing.pem')")
    assert "UsageError: MyModel could not be served: error: " in output
    assert "missing.pem" in output
    assert "ClassError: no cell of this notebook defines Made" in kernel.execute(
        "show(type('Made', (VideoModel,), {'start_session': lambda self: None, '__module__': '__main__'}))"
    )
    assert "ClassError: 3 is not a class of a model" in kernel.execute("show(3)")


def test_outside_of_a_notebook_it_is_an_error() -> None:
    with pytest.raises(UsageError, match="needs a notebook"):
        show(3)  # type: ignore[arg-type]
