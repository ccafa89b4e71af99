"""Serves a model from a Python program: alone, as `reactor run` does, or as a part of another web application.

Importing this file imports neither the server nor the command line.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from reactor_runtime.authoring.importing import is_importing
from reactor_runtime.authoring.styles.model import Model
from reactor_runtime.errors import ClassError, ReactorError, UsageError

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from reactor_runtime.manifest import Manifest
    from reactor_runtime.options.run_options import RunKeywords
    from reactor_runtime.server.options import (
        LoadingProgress,
        ReloadReport,
        ServeOptions,
        ServerListening,
        ServerReady,
        ServerStatistics,
    )
    from reactor_runtime.server.run import Service
    from reactor_runtime.server.sessions.engine_slot import EngineSlot

logger = logging.getLogger(__name__)

NO_FILE_HINT = (
    "save the class in a file, such as my_model.py, and write `from my_model import MyModel`; in a notebook use "
    "reactor_runtime.notebook.show(MyModel)"
)

NOT_STARTED = "the model is not started: pass its lifespan to your application, FastAPI(lifespan=model_app.lifespan)"
CANNOT_BE_SERVED = "the model can't be served; the log has the reason"
NOT_FOR_ASGI = {
    "drain_timeout",
    "forwarded_allow_ips",
    "host",
    "log_format",
    "open",
    "path",
    "port",
    "root_path",
    "share",
    "ssl_certfile",
    "ssl_keyfile",
    "verbose",
}


def serve(model: type[Model], **options: Unpack[RunKeywords]) -> None:
    """Serve a model until a signal, as `reactor run` does; use on the main thread.

    The options of `reactor run` are keywords: `port=9000`, `open=True`, `allow_host=["example.org"]`,
    `set={"train.lr": 0.001}`. The project is the directory of the file with the class; its `reactor.yaml` is optional.
    Prints errors as `reactor run` does, and raises SystemExit with its exit code. Raises ClassError for a class that
    the model's process could not import, and UsageError where an event loop runs. Returns at once while a server
    imports the model's file: the call in a script needs no `if __name__ == "__main__":`.
    """
    if is_importing():
        return
    manifest = manifest_of(model)
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        pass
    else:
        raise UsageError(
            "serve() blocks, and an event loop runs in this thread, as in a notebook",
            hint="run a script of its own: `python my_model.py`; in a notebook, reactor_runtime.notebook has show()",
        )
    from reactor_cli import app

    code = app.serve_class(manifest, options)
    if code:
        raise SystemExit(code)


def asgi(model: type[Model], **options: Unpack[RunKeywords]) -> ModelApp:
    """Return an ASGI application that serves a model, for an ASGI server or to be mounted in FastAPI or Starlette.

    The options are those of `serve`, without those of the HTTP server such as `port`. Raises ClassError for a class
    that the model's process could not import, and UsageError for a wrong option.
    """
    return ModelApp(manifest_of(model), options)


class ModelApp:
    """Serve a model as an ASGI application; its `lifespan` starts and stops the model's process.

    An application that mounts it has to run that lifespan: `FastAPI(lifespan=model_app.lifespan)`.
    """

    def __init__(self, manifest: Manifest, options: Mapping[str, Any]) -> None:
        self._manifest = manifest
        self._options = options
        self._app: ASGIApp | None = None
        self._running: tuple[Service[EngineSlot], asyncio.Task[None]] | None = None
        self._entered = 0
        self._refusal = NOT_STARTED
        for name in NOT_FOR_ASGI & options.keys():
            raise UsageError(
                f"asgi() does not take {name}",
                hint="the server that runs the application has the address, TLS and proxies; "
                "the program configures logging",
            )
        # The model's process imports this too, and needs no server.
        if not is_importing():
            self._serve_options()

    @contextlib.asynccontextmanager
    async def lifespan(self, _app: object = None) -> AsyncIterator[None]:
        """Start the model's process on the first entry, and end it on the last exit.

        It may be entered several times at once, as by an application and by the one that mounts it. The page reports
        the progress of loading.
        """
        if self._running is None:
            self._running = self._start()
        service, running = self._running
        self._entered += 1
        try:
            yield
        finally:
            self._entered -= 1
            if not self._entered:
                self._running = None
                service.stop()
                await running

    def _start(self) -> tuple[Service[EngineSlot], asyncio.Task[None]]:
        from reactor_runtime.server.backend import EngineBackend
        from reactor_runtime.server.run import Service
        from reactor_runtime.server.sessions.slot import SlotSettings

        operator = _LogProgress()
        service = Service(EngineBackend(SlotSettings.of(self._serve_options()), operator), operator)
        self._app = service.application()
        return service, asyncio.create_task(self._run(service, self._app))

    async def _run(self, service: Service[EngineSlot], app: ASGIApp) -> None:
        try:
            await service.run_mounted()
        except ReactorError as error:
            logger.error("the model can't be served: %s", error)
            self._refusal = CANNOT_BE_SERVED
        except Exception:
            logger.exception("the model can't be served")
            self._refusal = CANNOT_BE_SERVED
        else:
            self._refusal = NOT_STARTED
        finally:
            # The next entry may have started another one while this one stopped.
            if self._app is app:
                self._app = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, a WebSocket, or the lifespan of a server."""
        from starlette.responses import PlainTextResponse
        from starlette.routing import Router
        from starlette.websockets import WebSocket

        if scope["type"] == "lifespan":
            await Router(lifespan=self.lifespan).lifespan(scope, receive, send)
        elif self._app is not None:
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await WebSocket(scope, receive, send).close(reason=self._refusal)
        else:
            await PlainTextResponse(f"{self._refusal}\n", 503)(scope, receive, send)

    def _serve_options(self) -> ServeOptions:
        from reactor_runtime.manifest import project_config
        from reactor_runtime.options.run_options import RunOptions

        # The HTTP server's address is unknown here; with 0.0.0.0 requests by any address are accepted.
        options = RunOptions.from_keywords({**self._options, "host": "0.0.0.0"})
        config = project_config(self._manifest, options.overrides or [], warn=logger.warning)
        return options.serve_options(self._manifest, config)


class _LogProgress:
    """Log the progress of a server, as its `Operator`."""

    def on_listening(self, listening: ServerListening) -> None: ...

    def on_loading(self, loading: LoadingProgress) -> None:
        logger.info("loading elapsed=%.0fs detail=%s", loading.elapsed_s, loading.detail)

    def on_ready(self, ready: ServerReady) -> None:
        logger.info("ready load=%.2fs engines=%d/%d", ready.load_s, ready.ready, ready.engines)

    def on_reload(self, report: ReloadReport) -> None:
        if report.error is None:
            logger.info("reload status=%s reason=%s", report.status, report.reason or "-")
        else:
            logger.error("reload status=%s: %s", report.status, report.error)

    def on_tick(self, statistics: Callable[[], ServerStatistics]) -> None: ...

    def on_exit(self) -> None: ...


def manifest_of(model: type[Model]) -> Manifest:
    """Return the manifest for a class; raise ClassError if no other process can import the class."""
    from reactor_runtime import manifest

    if not isinstance(model, type) or not issubclass(model, Model):
        raise ClassError(f"{model!r} is not a class of a model", hint="serve(MyModel), the class and not an object")
    name = model.__name__
    if model.__qualname__ != name:
        raise ClassError(
            f"{model.__qualname__} is not at the top level of a file, where the model's process could import it",
            hint=f"move `class {name}` out of the function or class",
        )
    module, file = _module_of(model)
    depth = module.count(".") + (file.name == "__init__.py")
    return manifest.of_class(file.parents[depth], module, name)


def _module_of(model: type[Model]) -> tuple[str, Path]:
    """Return the name under which the module of a class can be imported, and its file."""
    module = sys.modules.get(model.__module__)
    written = None if module is None else module.__dict__.get("__file__")
    if module is None or written is None or not Path(written).is_file():
        raise ClassError(
            f"{model.__name__} is not in a file: the model's process can't import a class of a notebook or a prompt",
            hint=NO_FILE_HINT,
        )
    file = Path(written).resolve()
    if module.__name__ != "__main__":
        return module.__name__, file
    # A script has no spec, unless it was started with `python -m`.
    name = file.stem if module.__spec__ is None else module.__spec__.name
    if name == "__main__" or (module.__spec__ is None and "." in name):
        raise ClassError(f"{file.name} can't be imported under its name", hint="rename it, as in my_model.py")
    return name, file
