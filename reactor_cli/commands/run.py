"""`reactor run`: check the manifest and the config of a project, then serve it and print its URLs."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from reactor_cli import console, run_options
from reactor_cli.options import Directory, Overrides, PathOption, Verbose, project_config, project_directory

if TYPE_CHECKING:
    from reactor_runtime.manifest import Manifest
    from reactor_runtime.server.options import LoadingProgress, ServeOptions, ServerListening, ServerReady
    from reactor_runtime.server.security.access import Access

OPEN_TO_ALL = "anyone on the network can watch and control this model; --token auto requires a token"
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

\b
Exit codes: 0 stopped; 1 the model failed while serving; 2 an error in the
command, the manifest, the config or the class; 3 the port is taken;
4 load() failed; 130 stopped by a second Ctrl-C.
"""


def run(
    context: typer.Context,
    directory: Directory = None,
    path: PathOption = None,
    host: run_options.Host = "127.0.0.1",
    port: run_options.Port = 8080,
    overrides: Overrides = None,
    open_page: run_options.Open = False,
    max_waiting: run_options.MaxWaiting = 16,
    max_viewers: run_options.MaxViewers = 100,
    max_session: run_options.MaxSession = 0.0,
    idle_timeout: run_options.IdleTimeout = 0.0,
    resume_grace: run_options.ResumeGrace = 0.0,
    token: run_options.Token = None,
    allow_host: run_options.AllowHost = None,
    allow_origin: run_options.AllowOrigin = None,
    per_address: run_options.MaxPerAddress = None,
    certificate: run_options.SslCertfile = None,
    key: run_options.SslKeyfile = None,
    root_path: run_options.RootPath = "",
    proxies: run_options.ForwardedAllowIps = "",
    dev: run_options.Dev = False,
    sessions: run_options.Sessions = None,
    gpu_list: run_options.Gpus = "",
    step_timeout: run_options.StepTimeout = 0,
    load_timeout: run_options.LoadTimeout = 0.0,
    drain_timeout: run_options.DrainTimeout = 0,
    log_level: run_options.LogLevel = "info",
    log_format: run_options.LogFormat = "text",
    trace: run_options.Trace = None,
    verbose: Verbose = False,
) -> None:
    """Serve a project: the model, its page and its controls.

    The page is available at once and shows the progress of loading; Ctrl-C stops.
    """
    from reactor_runtime import manifest, streams

    streams.install()
    settings = context.ensure_object(console.Settings)
    settings.verbose = verbose
    checked = manifest.load(project_directory(directory, path))
    values = project_config(checked, overrides)
    gpu_names = run_options.parse_gpus(gpu_list)
    sessions = run_options.count_sessions(sessions, gpu_names)
    access = run_options.parse_access(
        token=token,
        hosts=allow_host or [],
        origins=allow_origin or [],
        per_address=per_address or max_waiting + max_viewers + run_options.EXTRA_CONNECTIONS,
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
            on_listening=announcer.on_listening,
            on_loading=announcer.on_loading,
            on_ready=announcer.on_ready,
        )
    )


def _serve(options: ServeOptions) -> None:
    """Serve, with the logs and prints of this process in the chosen format."""
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
    """Print the progress of the server; every method returns at once, because the server's loop calls it."""

    manifest: Manifest
    access: Access
    open_page: bool

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
        if self.open_page:
            _open_browser(self._with_token(url))

    def _with_token(self, url: str) -> str:
        """Return the URL with the token, if there is one."""
        from urllib.parse import quote

        return url if self.access.token is None else f"{url}/?token={quote(self.access.token, safe='')}"

    def on_loading(self, loading: LoadingProgress) -> None:
        """Print how long load() has been running, and in which of several engines."""
        detail = f": {loading.detail}" if loading.detail else ""
        which = f" {loading.engine} of {loading.engines}" if loading.engines > 1 else ""
        console.err(f"loading{which} … {loading.elapsed_s:.0f} s{detail}")

    def on_ready(self, ready: ServerReady) -> None:
        """Print how long loading took, and how many of several engines are ready."""
        which = f" {ready.ready} of {ready.engines}" if ready.engines > 1 else ""
        gpu = f", {'GPU ' if ready.gpu.isdigit() else ''}{ready.gpu}" if ready.gpu else ""
        console.out(f"{console.paint('ready', 'green')}{which} in {ready.load_s:.2f} s{gpu}")


def _open_browser(url: str) -> None:
    import threading
    import webbrowser

    # On a thread, because some browsers return only when they are closed.
    threading.Thread(target=webbrowser.open, args=(url,), name="browser", daemon=True).start()
