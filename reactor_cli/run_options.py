"""The options of `reactor run`: their declarations in the order of --help, and the server's options made of them.

A new option is a field of `RunOptions` and an argument in `serve_options`.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, Self, TypeAlias, get_args, get_origin, get_type_hints

import typer

from reactor_cli.cluster_run_options import ClusterRunOptions
from reactor_cli.common_options import Directory, Overrides, PathOption, Verbose, duration, one_of, whole_number
from reactor_cli.environment import host_of, in_space, port_of, space_access
from reactor_cli.share import tunnel_access
from reactor_runtime.config import Override
from reactor_runtime.errors import UsageError
from reactor_runtime.verbosity import FORMATS, LEVELS

if TYPE_CHECKING:
    from reactor_runtime.manifest import Manifest
    from reactor_runtime.server.options import Access, ServeOptions

TOKEN_VARIABLE = "REACTOR_TOKEN"
MAX_SESSIONS = 10_000
IN_PLACE = "in-place"
RELOADS = (IN_PLACE, "full")
# Connections beyond those of the clients: requests of the page's files, and clients that are about to be refused.
EXTRA_CONNECTIONS = 128
_UUID = r"[0-9a-fA-F]+(?:-[0-9a-fA-F]+)*"
_GPU = re.compile(rf"\d+|GPU-{_UUID}|MIG-{_UUID}|MIG-GPU-{_UUID}/\d+/\d+", re.ASCII)

Host: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        show_default="127.0.0.1, or HOST",
        help="The address to listen on; 0.0.0.0 accepts other machines.",
    ),
]
Port: TypeAlias = Annotated[
    int | None,
    typer.Option(
        parser=whole_number(0, 65535),
        metavar="PORT",
        show_default="8080, or PORT",
        help="The port to listen on; 0 picks a free one.",
    ),
]
OpenPage: TypeAlias = Annotated[bool, typer.Option("--open", help="Open the page in a browser.")]
Token: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="TOKEN", help=f"The secret clients have to send; auto generates one. Also {TOKEN_VARIABLE}."),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """The values of the options, as given; each field declares an option."""

    directory: Directory = None
    path: PathOption = None
    host: Host = None
    port: Port = None
    overrides: Overrides = None
    open_page: OpenPage = False
    max_waiting: Annotated[
        int, typer.Option(parser=whole_number(0), metavar="N", help="Controllers that may wait for a session.")
    ] = 16
    max_viewers: Annotated[int, typer.Option(parser=whole_number(0), metavar="N", help="Viewers allowed at once.")] = (
        100
    )
    max_session: Annotated[
        float,
        typer.Option(
            parser=duration,
            metavar="TIME",
            show_default="none",
            help="The length of a turn while others wait, such as 5m.",
        ),
    ] = 0.0
    idle_timeout: Annotated[
        float,
        typer.Option(
            parser=duration,
            metavar="TIME",
            show_default="none",
            help="Ask a controller that sends nothing for TIME whether it is still there.",
        ),
    ] = 0.0
    resume_grace: Annotated[
        float,
        typer.Option(
            parser=duration,
            metavar="TIME",
            show_default="none",
            help="Keep the session of a controller whose connection broke for TIME.",
        ),
    ] = 0.0
    token: Token = None
    share: Annotated[
        bool,
        typer.Option("--share", help="Make it public by a tunnel of cloudflared, with a token, and print the link."),
    ] = False
    allow_host: Annotated[
        list[str] | None,
        typer.Option("--allow-host", metavar="NAME", help="Accept requests for this host name too; may be repeated."),
    ] = None
    allow_origin: Annotated[
        list[str] | None,
        typer.Option("--allow-origin", metavar="ORIGIN", help="Accept pages of this site too; may be repeated."),
    ] = None
    per_address: Annotated[
        int | None,
        typer.Option(
            "--max-per-address",
            parser=whole_number(1),
            metavar="N",
            help="Connections allowed per address; by default enough for all clients, and 128 more.",
        ),
    ] = None
    certificate: Annotated[
        Path | None, typer.Option("--ssl-certfile", metavar="FILE", help="Serve https with this certificate, in PEM.")
    ] = None
    key: Annotated[
        Path | None, typer.Option("--ssl-keyfile", metavar="FILE", help="Its key, if that is in another file.")
    ] = None
    root_path: Annotated[
        str, typer.Option("--root-path", metavar="PATH", help="The path under which a proxy serves it, such as /demo.")
    ] = ""
    proxies: Annotated[
        str,
        typer.Option(
            "--forwarded-allow-ips", metavar="ADDRESSES", help="Trust the X-Forwarded headers of these proxies."
        ),
    ] = ""
    reload: Annotated[
        str | None,
        typer.Option(
            "--reload",
            parser=one_of(RELOADS),
            metavar="[full]",
            show_default="off",
            help="Apply changed files while the model runs; --reload=full restarts it after each save.",
        ),
    ] = None
    dev: Annotated[
        bool,
        typer.Option("--dev", help="Send messages of the model's exceptions to clients on other machines too."),
    ] = False
    sessions: Annotated[
        int | None,
        typer.Option(
            "--sessions",
            parser=whole_number(1, MAX_SESSIONS),
            metavar="N",
            help="Sessions at once; the model is loaded N times. 1 by default, or one for each of --gpus.",
        ),
    ] = None
    gpus: Annotated[
        str,
        typer.Option(
            "--gpus",
            metavar="LIST",
            help="GPUs such as 0,1 (or GPU-…, MIG-… of nvidia-smi -L): "
            "each session uses one; more sessions share them.",
        ),
    ] = ""
    step_timeout: Annotated[
        int,
        typer.Option(
            parser=whole_number(0),
            metavar="SECONDS",
            help="Restart the model when one step takes longer; 0 only warns.",
        ),
    ] = 0
    load_timeout: Annotated[
        float,
        typer.Option(
            parser=duration,
            metavar="TIME",
            show_default="none",
            help="The time limit for loading the model, such as 10m.",
        ),
    ] = 0.0
    drain_timeout: Annotated[
        int,
        typer.Option(
            parser=whole_number(0), metavar="SECONDS", help="After SIGTERM, let running sessions continue for so long."
        ),
    ] = 0
    log_level: Annotated[
        str, typer.Option(parser=one_of(LEVELS), metavar="|".join(LEVELS), help="Log lines of at least this level.")
    ] = "info"
    log_format: Annotated[
        str,
        typer.Option(
            parser=one_of(FORMATS),
            metavar="|".join(FORMATS),
            help="Log lines as text or as JSON.",
        ),
    ] = "text"
    trace: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a trace of frames and events, for Perfetto.")
    ] = None
    record: Annotated[
        Path | None,
        typer.Option("--record", metavar="DIR", help="Record each session into DIR, for `reactor replay`."),
    ] = None
    record_video: Annotated[
        bool, typer.Option("--record-video", help="Record the frames of the output too, without loss; they are large.")
    ] = False
    verbose: Verbose = False

    @classmethod
    def from_keywords(cls, given: Mapping[str, Any]) -> Self:
        """Return the options of `serve(MyModel, **given)`, which have the names of those of `reactor run`.

        A value of None or False leaves the option out. Raises UsageError.
        """
        hints = get_type_hints(cls, include_extras=True)
        names = {_keyword(field, hints[field]): field for field in hints if field not in ("directory", "path")}
        for name in given:
            if name not in names:
                raise _unknown_keyword(name, names)
        chosen = {name: value for name, value in given.items() if value is not None and value is not False}
        return cls(**{names[name]: _typed(name, value, hints[names[name]]) for name, value in chosen.items()})

    def serve_options(self, manifest: Manifest, config: dict[str, Any]) -> ServeOptions:
        """Return the options of the server. Raises UsageError for a wrong value or combination."""
        from reactor_runtime.server.options import ReloadOptions, ServeOptions, TurnLimits

        reload = ReloadOptions(full=self.reload != IN_PLACE, overrides=tuple(self.overrides or ()))
        gpus = parse_gpus(self.gpus)
        return ServeOptions(
            manifest=manifest,
            config=config,
            host=host_of(self.host, os.environ),
            port=port_of(self.port, os.environ),
            access=self.access(),
            max_waiting=self.max_waiting,
            max_viewers=self.max_viewers,
            limits=TurnLimits(
                max_session_s=self.max_session, idle_timeout_s=self.idle_timeout, resume_grace_s=self.resume_grace
            ),
            sessions=count_sessions(self.sessions, gpus),
            gpus=gpus,
            step_timeout_s=self.step_timeout,
            load_timeout_s=self.load_timeout,
            drain_timeout_s=self.drain_timeout,
            log_level=self.log_level,
            log_format=self.log_format,
            trace=self.trace,
            record=self.record_directory(),
            record_video=self.record_video,
            reload=reload if self.reload else None,
        )

    def refuse_on_cluster(self) -> None:
        """Raise UsageError for an option of engines on this machine, which a cluster does not have."""
        given = {"--gpus": self.gpus, "--reload": self.reload, "--record": self.record, "--trace": self.trace}
        for name, value in given.items():
            if value:
                hint = "--gpus-per-session requests GPUs of the cluster" if name == "--gpus" else "leave it out"
                raise UsageError(f"{name} is not available with --on ray", hint=hint)

    def record_directory(self) -> Path | None:
        """Return the directory for recordings, which is made. Raises UsageError if nothing can be written there."""
        from reactor_runtime.recording.file import require_extra

        if self.record is None:
            if self.record_video:
                raise UsageError("--record-video without --record", hint="--record DIR names the directory")
            return None
        require_extra()
        try:
            self.record.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"--record {self.record}: {error.strerror}", hint="name a directory") from None
        if not os.access(self.record, os.W_OK | os.X_OK):
            raise UsageError(f"--record {self.record} is not writable", hint="name another directory")
        return self.record

    def access(self) -> Access:
        """Return the options on access. Raises UsageError for a wrong value or combination."""
        from reactor_runtime.server.options import Access
        from reactor_runtime.server.security.hosts import parse_host
        from reactor_runtime.server.security.origins import parse_origin
        from reactor_runtime.server.security.proxies import parse_proxies
        from reactor_runtime.server.security.token import AUTO, parse_token

        if self.key is not None and self.certificate is None:
            raise UsageError("--ssl-keyfile without a certificate", hint="--ssl-certfile names it")
        if self.share and self.certificate is not None:
            raise UsageError("--share serves https by itself", hint="leave out --ssl-certfile")
        token = self.token if self.token is not None else os.environ.get(TOKEN_VARIABLE) or None
        if self.share and token is None:
            token = AUTO
        access = Access(
            token=None if token is None else parse_token(token),
            hosts=tuple(map(parse_host, self.allow_host or [])),
            origins=tuple(map(parse_origin, self.allow_origin or [])),
            per_address=self.per_address or self.max_waiting + self.max_viewers + EXTRA_CONNECTIONS,
            certificate=self.certificate,
            key=self.key,
            root_path=_root_path(self.root_path),
            proxies=parse_proxies(self.proxies),
            expose_errors=self.dev,
        )
        if self.share:
            access = tunnel_access(access)
        return space_access(access, os.environ) if in_space(os.environ) else access


class RunCommand(typer.core.TyperCommand):
    """Parse `--reload` without a value too, which an option of Typer that takes one refuses."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, [f"{each}={IN_PLACE}" if each == "--reload" else each for each in args])


def with_run_options(command: Callable[[typer.Context, RunOptions, ClusterRunOptions], None]) -> Callable[..., None]:
    """Return a command for Typer with a parameter for each field of `RunOptions` and of `ClusterRunOptions`."""

    @functools.wraps(command)
    def run(context: typer.Context, **values: Any) -> None:
        command(context, *split_options(values))

    context = inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
    options = [*_parameters(RunOptions), *_parameters(ClusterRunOptions)]
    run.__signature__ = inspect.Signature([context, *options])  # type: ignore[attr-defined]  # as `inspect` reads it
    run.__annotations__ = {each.name: each.annotation for each in (context, *options)}
    return run


def split_options(values: Mapping[str, Any]) -> tuple[RunOptions, ClusterRunOptions]:
    """Return the options of a server and those of a cluster, of all values by their names."""
    of_cluster = {field.name for field in fields(ClusterRunOptions)}
    return (
        RunOptions(**{name: value for name, value in values.items() if name not in of_cluster}),
        ClusterRunOptions(**{name: value for name, value in values.items() if name in of_cluster}),
    )


def _parameters(options: type[RunOptions] | type[ClusterRunOptions]) -> list[inspect.Parameter]:
    hints = get_type_hints(options, include_extras=True)
    return [
        inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=hints[field.name]
        )
        for field in fields(options)
    ]


def _keyword(field: str, hint: Any) -> str:
    """Return the name of an option in Python: ssl_certfile for --ssl-certfile."""
    # In an annotation the first argument of typer.Option is the name, not the default.
    declared = hint.__metadata__[0].default
    return declared.removeprefix("--").replace("-", "_") if isinstance(declared, str) else field


def _typed(name: str, value: Any, hint: Any) -> Any:
    """Return a keyword's value as the value of the option; raise UsageError for a wrong one."""
    kind, option = hint.__origin__, hint.__metadata__[0]
    if name == "set":
        return _overrides(value)
    if kind is bool:
        if value is True:
            return True
        raise UsageError(f"{name} is True or False, not {value!r}")
    if value is True and name == "reload":
        return IN_PLACE
    if value is True:
        raise UsageError(f"{name} takes a value, not True", hint=f"it is --{name.replace('_', '-')} {option.metavar}")
    if get_origin(kind := _without_none(kind)) is list:
        return [str(each) for each in (value if isinstance(value, list | tuple) else [value])]
    text = ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    try:
        return (option.parser or kind)(text)
    except typer.BadParameter as error:
        raise UsageError(f"{name}: {error}") from None


def _without_none(kind: Any) -> Any:
    """Return T for the type T | None, and any other type as it is."""
    if NoneType not in get_args(kind):
        return kind
    [only] = (each for each in get_args(kind) if each is not NoneType)
    return only


def _overrides(value: Any) -> list[Override]:
    """Return the overrides of a mapping from keys to values, or of texts such as a.b=3."""
    if isinstance(value, Mapping):
        return [Override.of(key, each) for key, each in value.items()]
    texts = [value] if isinstance(value, str) else value
    if isinstance(texts, list | tuple) and all(isinstance(each, str) for each in texts):
        return list(map(Override.parse, texts))
    raise UsageError(f"set is {value!r}", hint='write set={"width": 640, "train.lr": 0.001}')


def _unknown_keyword(name: str, declared: Iterable[str]) -> UsageError:
    if name in {field.name for field in fields(ClusterRunOptions)}:
        return UsageError(
            f"{name} is an option of a cluster", hint="add a reactor.yaml, and use `reactor run --on ray`"
        )
    near = difflib.get_close_matches(name, list(declared), n=1)
    return UsageError(
        f"there is no option {name}", hint=f"did you mean {near[0]}?" if near else "`reactor run --help` lists them"
    )


def _root_path(text: str) -> str:
    path = text.rstrip("/")
    if path and (not path.startswith("/") or path.startswith("//") or set(path) & set("?#%\\ ") or not path.isascii()):
        raise UsageError(f'--root-path "{text}" is not a path', hint="it starts with a slash, such as /demo")
    return path


def parse_gpus(text: str) -> tuple[str, ...]:
    """Return the GPU names of a list with commas, as in `CUDA_VISIBLE_DEVICES`. Raises UsageError for a wrong name."""
    names = tuple(name.strip() for name in text.split(",")) if text.strip() else ()
    for name in names:
        if not _GPU.fullmatch(name):
            raise UsageError(
                f'--gpus: "{name}" is not the name of a GPU',
                hint="a number from 0, or GPU-… or MIG-… as `nvidia-smi -L` lists them",
            )
        if names.count(name) > 1:
            raise UsageError(
                f"--gpus: {name} is named twice", hint=f"--gpus {name} --sessions 2 lets two sessions share it"
            )
    return names


def count_sessions(sessions: int | None, gpus: tuple[str, ...]) -> int:
    """Return the number of sessions. Raises UsageError if a GPU would have none."""
    if sessions is None:
        return len(gpus) or 1
    if sessions < len(gpus):
        raise UsageError(
            f"--sessions {sessions} leaves GPUs of --gpus {','.join(gpus)} without a session",
            hint="each session uses one GPU: name as many GPUs as sessions, or fewer",
        )
    return sessions
