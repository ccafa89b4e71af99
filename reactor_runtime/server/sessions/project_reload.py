"""Hot reload in the server: saved files are read, and each engine applies the new code or is started again."""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path
from typing import Any

from reactor_runtime import errors
from reactor_runtime import manifest as manifest_file
from reactor_runtime.ipc.messages import Reloaded
from reactor_runtime.manifest import Manifest
from reactor_runtime.server.options import ReloadOptions, ServeOptions
from reactor_runtime.server.sessions.engine_pool import EnginePool
from reactor_runtime.server.workers.watch import saved_files

logger = logging.getLogger(__name__)

FULL = "--reload=full"


class ProjectReload:
    """Reload the project in all engines after each save; use on the server's loop."""

    def __init__(self, options: ServeOptions, reload: ReloadOptions, engines: EnginePool) -> None:
        self._reload = reload
        self._engines = engines
        self._manifest = options.manifest
        self._manifest_files = _files_of(options.manifest)
        # Two reloads at once could apply the older files last.
        self._reloading = asyncio.Lock()

    async def run(self) -> None:
        """Reload after each save, until cancelled."""
        saves = saved_files(self._manifest.project, self._files)
        # The engines read the same contents.
        await anext(saves)
        async for _ in saves:
            await self.reload()

    def _files(self) -> set[Path]:
        """Return the files to watch beside Python files: the manifest, its config, and those that classes name."""
        project = self._manifest.project
        return self._manifest_files | {Path(os.path.normpath(project / name)) for name in self._engines.config_files}

    async def reload(self, *, everything: bool = False) -> None:
        """Apply the files as they are now; `everything`: all modules are executed again, changed or not."""
        async with self._reloading:
            await self._apply(everything=everything)

    async def _apply(self, *, everything: bool) -> None:
        try:
            manifest, config = await asyncio.to_thread(self._read)
        except errors.ReactorError as error:
            self._engines.report_reload(Reloaded("failed", error=errors.to_json(error)))
            return
        before, self._manifest = self._manifest, manifest
        self._manifest_files = await asyncio.to_thread(_files_of, manifest)
        if manifest.page_settings != before.page_settings:
            self._engines.send_reloads_again()
        reason = FULL if self._reload.full else ""
        if (manifest.module, manifest.class_name) != (before.module, before.class_name):
            reason = f"reactor.yaml names {manifest.model} now"
        if manifest.environment != before.environment:
            reason = "reactor.yaml names other variables now"
        self._engines.reload(manifest, config, everything=everything, restart_reason=reason)

    def _read(self) -> tuple[Manifest, dict[str, Any] | None]:
        manifest = self._manifest
        if manifest.model_at is None:
            # The class was given to serve() or asgi().
            manifest = manifest_file.of_class(manifest.project, manifest.module, manifest.class_name)
        else:
            manifest = manifest_file.load(manifest.project)
        return manifest, manifest.given_config(self._reload.overrides).values


def _files_of(manifest: Manifest) -> set[Path]:
    files = [manifest.project / manifest_file.FILE_NAME, manifest.config_path]
    # A link, and the file that it names: either may change.
    return {each for file in files if file is not None for each in (Path(os.path.abspath(file)), file.resolve())}
