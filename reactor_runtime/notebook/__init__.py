"""Serve a model from a notebook and show its page in the output cell.

A class of a notebook is written to a file together with the statements it needs, because the model runs in a process of
its own: a cell can be interrupted, and a crash of the model leaves the kernel alone.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack

from reactor_runtime.authoring.styles.model import Model
from reactor_runtime.errors import ClassError, UsageError
from reactor_runtime.notebook.source import module_of_cells
from reactor_runtime.options.run_options import RunKeywords, RunOptions
from reactor_runtime.serving import manifest_of

MODULE = "notebook_model"
STOP_S = 5.0
_ADDRESS = re.compile(r"^  (http://\S+)$")
# Magics that execute their cell in the notebook's namespace; others, such as `%%writefile`, do not define its names.
_EXECUTING_MAGICS = re.compile(r"(\s*%%(time|capture|prun|debug)\b.*\n)+")
_SERVERS = "_reactor_servers"
# Only Jupyter and its proxies, which have the token, show the page in a frame; their address is not known here.
_OPTIONS: RunKeywords = {
    "port": 0,
    "token": "auto",
    "allow_origin": ["*"],
    "log_level": "warning",
    "reload": "in-place",
}


def show(
    model: type[Model], config: dict[str, Any] | None = None, *, height: int = 640, **options: Unpack[RunKeywords]
) -> NotebookServer:
    """Serve a model, and show its page in the output of the cell; return the server, which `stop()` ends.

    `config` overrides values of the config, and the options are those of `serve`. After a cell that changes the class,
    the server applies the new code, as after a save with `reactor run --reload`. A server that an earlier call has
    started for a class of this name continues, unless config or options differ, or it has ended. The server ends with
    the kernel. Raises UsageError outside of a notebook, and ClassError for a class whose source is not in a cell or a
    file.
    """
    shell = _shell()
    servers = _servers_of(shell)
    if not isinstance(model, type) or not issubclass(model, Model):
        raise ClassError(f"{model!r} is not a class of a model", hint="show(MyModel), the class and not an object")
    name, cells = model.__name__, _python_cells(shell)
    chosen = options_text({**_OPTIONS, "set": config or {}, **options})
    if name not in servers or not servers[name].serves(model, chosen):
        if name in servers:
            servers.pop(name).stop()
        servers[name] = NotebookServer(model, cells, chosen)
    servers[name].display(height)
    return servers[name]


class NotebookServer:
    """Run `reactor run` for a model of a notebook, and print its output in the cell."""

    def __init__(self, model: type[Model], cells: Sequence[str], options: str) -> None:
        self._options = options
        self._module = model.__module__
        self._name = model.__name__
        self._folder: str | None = None
        self._source = ""
        if model.__module__ == "__main__":
            source = module_of_cells(model.__name__, cells, folder=os.getcwd())
            self._folder = tempfile.mkdtemp(prefix="reactor-notebook-")
            self._write(source)
            place = self._folder, MODULE, model.__name__
        else:
            manifest = manifest_of(model)
            place = str(manifest.project), manifest.module, manifest.class_name
        self._process = _start_process([*place, self._folder, options])
        self._listening = threading.Event()
        self._is_stopping = False
        # The server's output before its address.
        self._before: list[str] = []
        self.url = ""
        threading.Thread(target=self._print_output, name="reactor-notebook", daemon=True).start()
        try:
            self._listening.wait()
        except BaseException:
            self.stop()
            raise
        if not self.url:
            self.stop()
            raise UsageError(f"{model.__name__} could not be served: {''.join(self._before).strip()}")

    def serves(self, model: type[Model], options: str) -> bool:
        """Return whether the server runs, with these options and this class; it applies changes of the class itself."""
        return self._process.poll() is None and model.__module__ == self._module and options == self._options

    def apply(self, cells: Sequence[str]) -> None:
        """Write the new source of a class of a cell to its file, which the server then applies."""
        if self._runs_cells:
            source = module_of_cells(self._name, cells, folder=os.getcwd())
            if source != self._source:
                self._write(source)

    @property
    def _runs_cells(self) -> bool:
        return self._folder is not None and self._process.poll() is None

    def _write(self, source: str) -> None:
        assert self._folder is not None, "the class is one of a cell"
        self._source = source
        (Path(self._folder) / f"{MODULE}.py").write_text(source, encoding="utf-8")

    def display(self, height: int) -> None:
        """Show the page, and a link to it, in the output of the running cell."""
        from IPython.display import HTML, IFrame, display

        if "google.colab" in sys.modules:
            sys.modules["google.colab"].output.serve_kernel_port_as_iframe(
                int(self.url.partition("?")[0].rstrip("/").rpartition(":")[2]),
                path=_query(self.url),
                height=str(height),
            )
            return
        display(HTML(f'<a href="{self.url}" target="_blank">{self.url.partition("?")[0]}</a>'))  # type: ignore[no-untyped-call]
        display(IFrame(self.url, width="100%", height=height, extras=['allow="camera; microphone; fullscreen"']))  # type: ignore[no-untyped-call]

    def stop(self) -> None:
        """End the server and the model; may be called twice."""
        self._is_stopping = True
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _print_output(self) -> None:
        assert self._process.stdout is not None, "it is a pipe"
        with self._process.stdout as output:
            for line in output:
                address = _ADDRESS.match(line)
                if address is not None and not self.url:
                    self.url = address[1]
                    self._listening.set()
                elif not self.url:
                    self._before.append(line)
                elif not self._is_stopping:
                    sys.stdout.write(line)
        self._listening.set()


def options_text(options: Mapping[str, Any]) -> str:
    """Return the options as JSON; raise UsageError for a wrong one."""
    RunOptions.from_keywords(options)
    # Paths are text; the values of the config are those of JSON.
    return json.dumps(options, default=str)


def _start_process(served: list[str | None]) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-m", "reactor_runtime.notebook"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        # Interrupting a cell sends SIGINT to the whole group of the kernel.
        start_new_session=True,
    )
    assert process.stdin is not None, "it is a pipe"
    process.stdin.write(f"{json.dumps(served)}\n")
    process.stdin.flush()
    return process


def _query(url: str) -> str:
    return f"/?{url.partition('?')[2]}"


def _shell() -> Any:
    # The function exists in a notebook's `builtins` only.
    get_ipython = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)
    shell = get_ipython()
    if shell is None:
        raise UsageError("show() needs a notebook", hint="in a script, serve(MyModel) serves a model")
    return shell


def _servers_of(shell: Any) -> dict[str, NotebookServer]:
    """Return the servers of a notebook by the names of their classes; they apply each cell after it was executed."""
    if _SERVERS not in vars(shell):
        vars(shell)[_SERVERS] = {}
        shell.events.register("post_run_cell", lambda _: _apply_cells(shell))
    servers: dict[str, NotebookServer] = vars(shell)[_SERVERS]
    return servers


def _apply_cells(shell: Any) -> None:
    cells = _python_cells(shell)
    for server in _servers_of(shell).values():
        server.apply(cells)


def _python_cells(shell: Any) -> list[str]:
    """Return the executed cells as Python, without the magics at the top that execute the rest of their cell."""
    history = shell.history_manager
    cells = []
    for raw, python in zip(history.input_hist_raw, history.input_hist_parsed, strict=True):
        magics = _EXECUTING_MAGICS.match(raw)
        cells.append(python if magics is None else shell.transform_cell(raw[magics.end() :]))
    return cells
