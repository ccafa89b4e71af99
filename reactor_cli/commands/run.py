"""`reactor run`: check the manifest and the config of a project, then serve it and print its URLs."""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from reactor_cli import console, status_line
from reactor_cli.common_options import project_config, report_project
from reactor_cli.flags import RunCommand, with_run_options
from reactor_cli.run_status import RunStatus, open_browser
from reactor_cli.share import Tunnel, find_program, qr_code
from reactor_runtime.cluster.run_options import ClusterRunOptions
from reactor_runtime.errors import UsageError
from reactor_runtime.options.run_options import RunOptions

if TYPE_CHECKING:
    from reactor_runtime.cluster.options import ClusterOptions
    from reactor_runtime.manifest import Manifest
    from reactor_runtime.server.options import (
        Access,
        LoadingProgress,
        ReloadReport,
        ServeOptions,
        ServerListening,
        ServerReady,
        ServerStatistics,
    )

OPEN_TO_ALL = "anyone on the network can watch and control this model; --token auto requires a token"
# The class of the command for Typer.
COMMAND_CLASS = RunCommand

EPILOG = """
\b
Examples:
  reactor run                          serve the project in this directory
  reactor run my-model --port 9000     serve another project on another port
  reactor run --set width=1280         override a value of config.yml
  reactor run --set train.lr=1.0e-3    a value inside a mapping; values are YAML
  reactor run --host 0.0.0.0 --token auto    accept other machines, with a token
  reactor run --sessions 2             two sessions at once, with a model each
  reactor run --gpus 0,1               the same, with a GPU each
  reactor run --no-reload              do not apply changed files while it runs
  reactor run --on ray --sessions 8    eight sessions at once, on a cluster

\b
Exit codes: 0 stopped; 1 the model failed while serving; 2 an error in the
command, the manifest, the config or the class, or a Ray that can't be used; 3 the port is taken;
4 load() failed; 130 stopped by a second Ctrl-C.
"""


@with_run_options
def run(context: typer.Context, project: Path, options: RunOptions, on_cluster: ClusterRunOptions) -> None:
    """Serve a project: the model, its page and its controls.

    The page is available at once and shows the progress of loading; Ctrl-C stops.
    """
    from reactor_runtime import manifest

    settings = context.ensure_object(console.Settings)
    settings.verbose = options.verbose
    checked = manifest.load(project)
    serve_project(checked, options, settings, _cluster_options(checked, options, on_cluster))


def serve_project(
    manifest: Manifest, options: RunOptions, settings: console.Settings, cluster: ClusterOptions | None = None
) -> None:
    """Serve a project here or on a cluster until a signal."""
    from reactor_runtime.logs import streams

    streams.install()
    settings.verbose, settings.json_logs = options.verbose, options.log_format == "json"
    # A server that a person watches, not one that a service manager starts.
    reloads_here = cluster is None and status_line.is_wanted()
    with contextlib.ExitStack() as stack:
        stack.enter_context(_logged(options))
        served = options.serve_options(manifest, project_config(manifest, options.overrides), reloads_here=reloads_here)
        report_project(manifest, gpus=1 if served.gpus else None)
        share = partial(_share, stack, find_program(), with_qr=not settings.json_logs) if options.share else None
        _serve(served, cluster, open_page=options.open_page, share=share)


@contextlib.contextmanager
def _logged(options: RunOptions) -> Iterator[None]:
    """Log in the chosen format in the block; with JSON, also what is printed."""
    from reactor_runtime.logs import prints, streams
    from reactor_runtime.logs.handler import configure_logs

    as_json = options.log_format == "json"
    configure_logs(options.log_level, "json" if as_json else "text")
    end = prints.log_prints(streams.installed()) if as_json else lambda: None
    try:
        yield
    finally:
        end()


def _cluster_options(checked: Manifest, options: RunOptions, on_cluster: ClusterRunOptions) -> ClusterOptions | None:
    cluster = on_cluster.cluster_options(checked, options.sessions)
    if cluster is None:
        return None
    options.refuse_on_cluster()
    # Only the driver imports Ray, in a process of its own.
    for name in ("jwt", "ray"):
        if importlib.util.find_spec(name) is None:
            raise UsageError(f"--on ray needs the package {name}", hint="pip install 'reactor-live[ray]'")
    return cluster


def _share(stack: contextlib.ExitStack, program: str, url: str, query: str, *, with_qr: bool) -> None:
    """Start a tunnel to the server at `url`, which ends with `stack`, and print its link with the query."""

    def on_address(address: str) -> None:
        link = f"{address}{query}"
        console.out(f"  {console.paint(link, 'cyan')}  for everybody who has this link")
        if with_qr:
            console.out(qr_code(link))

    def on_failed(line: str) -> None:
        console.warn(f"cloudflared ended, the model is not shared: {console.printable(line)}")

    stack.callback(Tunnel(program, url, on_address=on_address, on_failed=on_failed).close)


def _serve(
    options: ServeOptions,
    cluster: ClusterOptions | None,
    *,
    open_page: bool,
    share: Callable[[str, str], None] | None,
) -> None:
    """Serve here or on a cluster and print the progress, with a status line on a terminal.

    `share` is called with the local URL and the query that has the token.
    """
    from reactor_runtime import manifest
    from reactor_runtime.server.run import serve

    # Not for a stream whose lines are logged.
    status = RunStatus(reloads=options.reload is not None) if status_line.is_wanted() else None
    announcer = Announcer(
        manifest=options.manifest,
        access=options.access,
        open_page=open_page,
        reloads=options.reload is not None,
        share=share,
        status=status,
    )
    with contextlib.ExitStack() as stack:
        if status is not None:
            stack.enter_context(status.line.shown())
        stack.enter_context(manifest.pointing_at(options.manifest))
        if cluster is None:
            serve(options, announcer)
        else:
            _serve_front(options, cluster, announcer)


def _serve_front(options: ServeOptions, cluster: ClusterOptions, announcer: Announcer) -> None:
    from reactor_runtime.cluster.front.serve import serve_front

    where = f"connecting to Ray at {cluster.address}" if cluster.address else "starting Ray on this machine"
    console.err(f"{where} …")
    serve_front(options, cluster, announcer)


@dataclass(frozen=True, slots=True, kw_only=True)
class Announcer:
    """Print the progress of the server, as its `Operator`."""

    manifest: Manifest
    access: Access
    open_page: bool
    reloads: bool = False
    # Called with the local URL and the query that has the token.
    share: Callable[[str, str], None] | None = None
    status: RunStatus | None = None

    def on_listening(self, listening: ServerListening) -> None:
        """Print the model and the URLs, and open the page with `--open`."""
        from reactor_cli import addresses

        scheme = "http" if self.access.certificate is None else "https"
        url = addresses.local_url(listening.host, listening.port, scheme=scheme)
        console.out(f"{console.paint(self.manifest.name, 'bold')}  {self.manifest.model}")
        console.out(f"  {console.paint(self._with_token(url), 'cyan')}")
        if not addresses.is_loopback(listening.host):
            elsewhere = addresses.lan_url(listening.host, listening.port, scheme=scheme)
            if elsewhere and elsewhere != url:
                console.out(f"  {console.paint(self._with_token(elsewhere), 'cyan')}  for other machines")
            if self.access.token is None:
                console.warn(OPEN_TO_ALL)
        if self.share is not None:
            self.share(url, self._query())
        if self.status is not None:
            if self.reloads:
                console.out("  save a file, and the model runs the new code; r runs all of it again")
            self.status.url = self._with_token(url)
            self.status.reload = listening.reload
        if self.open_page:
            open_browser(self._with_token(url))

    def _with_token(self, url: str) -> str:
        """Return the URL with the token, if there is one."""
        return f"{url}{self._query()}"

    def _query(self) -> str:
        from urllib.parse import quote

        return "" if self.access.token is None else f"/?token={quote(self.access.token, safe='')}"

    def on_loading(self, loading: LoadingProgress) -> None:
        """Print how long load() has been running, its progress, and in which of several engines."""
        detail = f": {loading.detail}" if loading.detail else ""
        which = f" {loading.engine} of {loading.engines}" if loading.engines > 1 else ""
        share = "" if loading.progress is None else f", {loading.progress:.0%}"
        console.err(f"loading{which} … {loading.elapsed_s:.0f} s{share}{detail}")

    def on_ready(self, ready: ServerReady) -> None:
        """Print how long loading took, and how many of several engines are ready."""
        which = f" {ready.ready} of {ready.engines}" if ready.engines > 1 else ""
        gpu = f", {'GPU ' if ready.gpu.isdigit() else ''}{ready.gpu}" if ready.gpu else ""
        shared = f", for {ready.sessions} sessions" if ready.sessions > 1 else ""
        console.out(f"{console.paint('ready', 'green')}{which} in {ready.load_s:.2f} s{gpu}{shared}")

    def on_reload(self, report: ReloadReport) -> None:
        """Print the outcome of a reload, and why it failed."""
        from reactor_cli.errors import render

        if report.error is not None:
            console.err(render(report.error, verbose=False))
            return
        reason = f": {report.reason}" if report.reason else ""
        console.out(f"{console.paint('reload', 'green')} {report.status}{reason}")

    def on_tick(self, statistics: Callable[[], ServerStatistics]) -> None:
        """Show the statistics in the status line, if there is one."""
        if self.status is not None:
            self.status.show(statistics())

    def on_exit(self) -> None:
        """Restore the terminal."""
        if self.status is not None:
            self.status.line.close()
