"""`reactor run`: check a project's manifest and config, then serve it and tell the operator where."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from reactor_cli import access_options as strangers
from reactor_cli import console, gpus
from reactor_cli import listen_options as listening
from reactor_cli import log_options as records
from reactor_cli import session_options as turns
from reactor_cli.options import Directory, Overrides, PathOption, Verbose, project_config, project_directory

if TYPE_CHECKING:
    from reactor_runtime.manifest import Manifest
    from reactor_runtime.server.options import LoadingProgress, ServeOptions, ServerListening, ServerReady
    from reactor_runtime.server.security.access import Access

MORE_CONNECTIONS = 128  # beside those of clients: the page's files, and whoever comes to find no place
OPEN_TO_ALL = "anyone on the network can watch and control this model; --token auto asks them for a token"
EPILOG = """
\b
Examples:
  reactor run                          serve the project in this directory
  reactor run my-model --port 9000     serve another one, elsewhere
  reactor run --set width=1280         override a value of config.yml
  reactor run --set train.lr=1.0e-3    a value inside a mapping; values are YAML
  reactor run --host 0.0.0.0 --token auto    let other machines in, with a token
  reactor run --sessions 2             two controllers at once, a model each
  reactor run --gpus 0,1               the same, with a GPU each

\b
Exit codes: 0 stopped; 1 the model failed while serving; 2 the command, the
manifest, the config or the class has to be corrected; 3 the port is taken;
4 load() failed; 130 stopped by a second Ctrl-C.
"""


def run(
    context: typer.Context,
    directory: Directory = None,
    path: PathOption = None,
    host: listening.Host = "127.0.0.1",
    port: listening.Port = 8080,
    overrides: Overrides = None,
    open_page: listening.OpenPage = False,
    max_waiting: turns.MaxWaiting = 16,
    max_viewers: turns.MaxViewers = 100,
    max_session: turns.MaxSession = 0.0,
    idle_timeout: turns.IdleTimeout = 0.0,
    resume_grace: turns.ResumeGrace = 0.0,
    token: strangers.TokenOption = None,
    allow_host: strangers.Hosts = None,
    allow_origin: strangers.Origins = None,
    per_address: strangers.PerAddress = None,
    certificate: strangers.Certificate = None,
    key: strangers.Key = None,
    root_path: strangers.RootPath = "",
    proxies: strangers.Proxies = "",
    dev: strangers.Dev = False,
    sessions: gpus.Sessions = None,
    gpu_list: gpus.Gpus = "",
    step_timeout: turns.StepTimeout = 0,
    load_timeout: turns.LoadTimeout = 0.0,
    drain_timeout: turns.DrainTimeout = 0,
    log_level: records.LogLevel = "info",
    log_format: records.LogFormat = "text",
    trace: records.Trace = None,
    verbose: Verbose = False,
) -> None:
    """Serve a project: the model, its page and its controls.

    The page is up at once and shows how loading goes; Ctrl-C stops.
    """
    from reactor_runtime import manifest, streams

    streams.install()
    settings = context.ensure_object(console.Settings)
    settings.verbose = verbose
    checked = manifest.load(project_directory(directory, path))
    values = project_config(checked, overrides)
    gpu_names = gpus.parse_gpus(gpu_list)
    sessions = gpus.count_sessions(sessions, gpu_names)
    access = strangers.parse_access(
        token=token,
        hosts=allow_host or [],
        origins=allow_origin or [],
        per_address=per_address or max_waiting + max_viewers + MORE_CONNECTIONS,
        certificate=certificate,
        key=key,
        root_path=root_path,
        proxies=proxies,
        dev=dev,
    )

    from reactor_runtime.server.options import ServeOptions
    from reactor_runtime.server.sessions.turn import TurnLimits

    settings.json_logs = log_format == "json"
    announcer = Announcer(manifest=checked, access=access, open_page=open_page)
    _serve(
        ServeOptions(
            manifest=checked,
            config=values,
            host=host,
            port=port,
            access=access,
            max_waiting=max_waiting,
            max_viewers=max_viewers,
            limits=TurnLimits(max_session_s=max_session, idle_timeout_s=idle_timeout, resume_grace_s=resume_grace),
            sessions=sessions,
            gpus=gpu_names,
            step_timeout_s=step_timeout,
            load_timeout_s=load_timeout,
            drain_timeout_s=drain_timeout,
            log_level=log_level,
            log_format=log_format,
            trace=trace,
            on_listening=announcer.listening,
            on_loading=announcer.loading,
            on_ready=announcer.ready,
        )
    )


def _serve(options: ServeOptions) -> None:
    """Serve, and have what this process logs and prints come in the format that was asked for."""
    from reactor_runtime import logs, manifest, prints, streams
    from reactor_runtime.server.run import serve

    as_json = options.log_format == "json"
    logs.configure(options.log_level, "json" if as_json else "text")
    with manifest.pointing_at(options.manifest), contextlib.ExitStack() as stack:
        if as_json:
            stack.callback(prints.log_prints(streams.installed()))
        serve(options)


@dataclass(frozen=True, slots=True, kw_only=True)
class Announcer:
    """Tell the operator what the server is up to; all of it returns at once, since the server's loop calls it."""

    manifest: Manifest
    access: Access
    open_page: bool

    def listening(self, listening: ServerListening) -> None:
        """Print the model and the URLs, and open the page if asked to."""
        from reactor_cli import addresses

        scheme = "http" if self.access.certificate is None else "https"
        url = addresses.local_url(listening.host, listening.port, scheme=scheme)
        console.out(f"{console.paint(self.manifest.name, 'bold')}  {self.manifest.model}")
        console.out(f"  {console.paint(self._open(url), 'cyan')}")
        if not addresses.is_loopback(listening.host):
            elsewhere = addresses.lan_url(listening.host, listening.port, scheme=scheme)
            if elsewhere and elsewhere != url:
                console.out(f"  {console.paint(self._open(elsewhere), 'cyan')}  for other machines")
            if self.access.token is None:
                console.warn(OPEN_TO_ALL)
        if self.open_page:
            _open_browser(self._open(url))

    def _open(self, url: str) -> str:
        """Add to a URL what opens the page to whoever has it."""
        from urllib.parse import quote

        return url if self.access.token is None else f"{url}/?token={quote(self.access.token, safe='')}"

    def loading(self, loading: LoadingProgress) -> None:
        """Print that load() is still at it, and in which engine if there are several."""
        detail = f": {loading.detail}" if loading.detail else ""
        which = f" {loading.engine} of {loading.engines}" if loading.engines > 1 else ""
        console.err(f"loading{which} … {loading.elapsed_s:.0f} s{detail}")

    def ready(self, ready: ServerReady) -> None:
        """Print how long loading took, and how many engines serve if there are several."""
        which = f" {ready.ready} of {ready.engines}" if ready.engines > 1 else ""
        gpu = f", {'GPU ' if ready.gpu.isdigit() else ''}{ready.gpu}" if ready.gpu else ""
        console.out(f"{console.paint('ready', 'green')}{which} in {ready.load_s:.2f} s{gpu}")


def _open_browser(url: str) -> None:
    import threading
    import webbrowser

    # A thread of its own: some browsers return only when they are closed.
    threading.Thread(target=webbrowser.open, args=(url,), name="browser", daemon=True).start()
