"""The options of `reactor run`, which `serve()`, `asgi()` and `show()` take as keywords.

A new option is a field of `RunOptions`, a keyword of `RunKeywords`, and an argument in `serve_options`. The command
line makes its flags and their help from the fields, in their order.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import NoneType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    Self,
    TypeAlias,
    TypedDict,
    get_args,
    get_origin,
    get_type_hints,
)

from reactor_runtime.config import GivenConfig, Override
from reactor_runtime.errors import UsageError
from reactor_runtime.logs.verbosity import FORMATS, LEVELS
from reactor_runtime.options.hosting import host_of, in_space, port_of, space_access, tunnel_access
from reactor_runtime.options.option import Option, duration, one_of, whole_number

if TYPE_CHECKING:
    from reactor_runtime.manifest import Manifest
    from reactor_runtime.server.options import Access, ServeOptions

TOKEN_VARIABLE = "REACTOR_TOKEN"
MAX_SESSIONS = 10_000
# Of one loaded model; `ipc.credits` has memory for so many.
MOST_SESSIONS = 64
IN_PLACE, NO_RELOAD = "in-place", "off"
JPEG = "jpeg"
# The values of options without one.
BARE = {"reload": IN_PLACE, "record_video": JPEG}
RELOADS = (IN_PLACE, "full", NO_RELOAD)
CODECS = ("auto", "always", "never")
VIDEO_FORMATS = (JPEG, "lossless")
# Connections beyond those of the clients: requests of the page's files, and clients that are about to be refused.
EXTRA_CONNECTIONS = 128
_UUID = r"[0-9a-fA-F]+(?:-[0-9a-fA-F]+)*"
_GPU = re.compile(rf"\d+|GPU-{_UUID}|MIG-{_UUID}|MIG-GPU-{_UUID}/\d+/\d+", re.ASCII)


Text: TypeAlias = str | Path
Seconds: TypeAlias = float | str


class RunKeywords(TypedDict, total=False):
    """The options of `RunOptions` as keywords, for editors and type checkers.

    Times are seconds or text such as "5m"; `set` has values by their keys in the config, such as "train.lr".
    """

    host: str | None
    port: int | None
    set: Mapping[str, Any] | Sequence[str] | None
    open: bool
    max_waiting: int
    max_viewers: int
    max_session: Seconds
    idle_timeout: Seconds
    resume_grace: Seconds
    token: str | None
    share: bool
    allow_host: str | Sequence[str] | None
    allow_origin: str | Sequence[str] | None
    max_per_address: int | None
    ssl_certfile: Text | None
    ssl_keyfile: Text | None
    root_path: str
    forwarded_allow_ips: str | Sequence[str]
    reload: bool | Literal["in-place", "full"] | None
    dev: bool
    sessions: int | None
    sessions_per_model: int | None
    shared: bool
    codec: Literal["auto", "always", "never"]
    gpus: str | Sequence[int | str]
    step_timeout: Seconds
    load_timeout: Seconds
    drain_timeout: Seconds
    log_level: str
    log_format: Literal["text", "json"]
    trace: Text | None
    record: Text | None
    record_video: bool | Literal["jpeg", "lossless"]
    verbose: bool


def _time(help: str, default_text: str = "none") -> Option:
    """Declare a time whose default is no limit."""
    return Option(help, metavar="TIME", parse=duration, default_text=default_text)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """The values of the options, as given; each field declares an option.

    Raises UsageError for values that can't be used together, or that no parser of one option refuses.
    """

    host: Annotated[
        str | None,
        Option(
            "The address to listen on; 0.0.0.0 accepts other machines.",
            metavar="ADDRESS",
            default_text="127.0.0.1, or HOST",
        ),
    ] = None
    port: Annotated[
        int | None,
        Option(
            "The port to listen on; 0 picks a free one.",
            metavar="PORT",
            parse=whole_number(0, 65535),
            default_text="8080, or PORT",
        ),
    ] = None
    overrides: Annotated[
        list[Override] | None,
        Option("Override a config value; may be repeated.", "--set", "KEY=VALUE", parse=Override.parse),
    ] = None
    open_page: Annotated[bool, Option("Open the page in a browser.", "--open")] = False
    max_waiting: Annotated[
        int, Option("Controllers that may wait for a session.", metavar="N", parse=whole_number(0))
    ] = 16
    max_viewers: Annotated[int, Option("Viewers allowed at once.", metavar="N", parse=whole_number(0))] = 100
    max_session: Annotated[float, _time("The length of a turn while others wait, such as 5m.")] = 0.0
    idle_timeout: Annotated[float, _time("Ask a controller that sends nothing for TIME whether it is still there.")] = (
        0.0
    )
    resume_grace: Annotated[
        float | None,
        _time("Keep the session of a controller whose connection broke for TIME.", "none; 60s for models of 3.x"),
    ] = None
    token: Annotated[
        str | None,
        Option(f"The secret clients have to send; auto generates one. Also {TOKEN_VARIABLE}.", metavar="TOKEN"),
    ] = None
    share: Annotated[bool, Option("Make it public by a tunnel of cloudflared, with a token, and print the link.")] = (
        False
    )
    allow_host: Annotated[
        list[str] | None, Option("Accept requests for this host name too; may be repeated.", metavar="NAME")
    ] = None
    allow_origin: Annotated[
        list[str] | None, Option("Accept pages of this site too; may be repeated.", metavar="ORIGIN")
    ] = None
    per_address: Annotated[
        int | None,
        Option(
            "Connections allowed per address; by default enough for all clients, and 128 more.",
            "--max-per-address",
            "N",
            parse=whole_number(1),
        ),
    ] = None
    certificate: Annotated[
        Path | None, Option("Serve https with this certificate, in PEM.", "--ssl-certfile", "FILE")
    ] = None
    key: Annotated[Path | None, Option("Its key, if that is in another file.", "--ssl-keyfile", "FILE")] = None
    root_path: Annotated[str, Option("The path under which a proxy serves it, such as /demo.", metavar="PATH")] = ""
    proxies: Annotated[
        str, Option("Trust the X-Forwarded headers of these proxies.", "--forwarded-allow-ips", "ADDRESSES")
    ] = ""
    reload: Annotated[
        str | None,
        Option(
            "Apply changed files while the model runs, or not: --no-reload. --reload=full restarts it after each save.",
            metavar="[full]",
            parse=one_of(RELOADS),
            default_text="on in a terminal, if only this machine can connect",
        ),
    ] = None
    dev: Annotated[bool, Option("Send messages of the model's exceptions to clients on other machines too.")] = False
    sessions: Annotated[
        int | None,
        Option(
            "Sessions at once; the model is loaded N times. 1 by default, or one for each of --gpus.",
            metavar="N",
            parse=whole_number(1, MAX_SESSIONS),
        ),
    ] = None
    sessions_per_model: Annotated[
        int | None,
        Option(
            "Sessions that share each loaded model.",
            metavar="N",
            parse=whole_number(1, MOST_SESSIONS),
            default_text="the model's sessions_per_model, or 1",
        ),
    ] = None
    shared: Annotated[bool, Option("Every client of a session may send events, viewers too.")] = False
    codec: Annotated[
        str,
        Option(
            "Send H.264 to clients that can decode it: where the network does not carry JPEGs, always, or never.",
            metavar="|".join(CODECS),
            parse=one_of(CODECS),
        ),
    ] = "auto"
    gpus: Annotated[
        str,
        Option(
            "GPUs such as 0,1 (or GPU-…, MIG-… of nvidia-smi -L): each session uses one; more sessions share them.",
            metavar="LIST",
        ),
    ] = ""
    step_timeout: Annotated[float, _time("Restart the model when one step takes longer.", "none: a warning")] = 0.0
    load_timeout: Annotated[float, _time("The time limit for loading the model, such as 10m.")] = 0.0
    drain_timeout: Annotated[float, _time("After SIGTERM, let running sessions continue for TIME.")] = 0.0
    log_level: Annotated[
        str,
        Option(
            "Log lines of at least this level.",
            metavar="|".join(LEVELS),
            parse=one_of(LEVELS),
            variable="REACTOR_LOG_LEVEL",
        ),
    ] = "info"
    log_format: Annotated[
        str,
        Option(
            "Log lines as text or as JSON.",
            metavar="|".join(FORMATS),
            parse=one_of(FORMATS),
            variable="REACTOR_LOG_FORMAT",
        ),
    ] = "text"
    trace: Annotated[Path | None, Option("Write a trace of frames and events, for Perfetto.", metavar="FILE")] = None
    record: Annotated[Path | None, Option("Record each session into DIR, for `reactor replay`.", metavar="DIR")] = None
    record_video: Annotated[
        str | None,
        Option(
            "Record the frames of the output too, as JPEGs; --record-video=lossless all pixels, which are large.",
            metavar="[lossless]",
            parse=one_of(VIDEO_FORMATS),
        ),
    ] = None
    verbose: Annotated[bool, Option("Show whole tracebacks, Reactor's code included.")] = False

    def __post_init__(self) -> None:
        if self.key is not None and self.certificate is None:
            raise UsageError("--ssl-keyfile without a certificate", hint="--ssl-certfile names it")
        if self.share and self.certificate is not None:
            raise UsageError("--share serves https by itself", hint="leave out --ssl-certfile")
        if self.record_video and self.record is None:
            raise UsageError("--record-video without --record", hint="--record DIR names the directory")
        _root_path(self.root_path)
        count_sessions(self.sessions, parse_gpus(self.gpus))

    @classmethod
    def from_keywords(cls, given: Mapping[str, Any]) -> Self:
        """Return the options of `serve(MyModel, **given)`, which have the names of those of `reactor run`.

        A value of None or False leaves the option out. Raises UsageError.
        """
        declared = {option.keyword(field): (field, kind, option) for field, kind, option in declarations(cls)}
        for name in given:
            if name not in declared:
                raise _unknown_keyword(name, declared)
        chosen = {name: value for name, value in given.items() if value is not None and value is not False}
        values = {}
        for name, value in chosen.items():
            field, kind, option = declared[name]
            values[field] = _value(name, value, kind, option)
        return cls(**values)

    def serve_options(
        self, manifest: Manifest, config: GivenConfig | dict[str, Any], *, reloads_here: bool = False
    ) -> ServeOptions:
        """Return the options of the server. Raises UsageError for a wrong value or combination.

        `reloads_here` is the default of `reload` for a server that only this machine can connect to.
        """
        from reactor_runtime.server.options import OUTLIVES_S, ReloadOptions, ServeOptions, TurnLimits

        gpus = parse_gpus(self.gpus)
        given = GivenConfig.of(config)
        options = ServeOptions(
            manifest=manifest,
            config=given.values,
            merged_config=given.merged,
            host=host_of(self.host, os.environ),
            port=port_of(self.port, os.environ),
            access=self.access(),
            max_waiting=self.max_waiting,
            max_viewers=self.max_viewers,
            limits=TurnLimits(
                max_session_s=self.max_session,
                idle_timeout_s=self.idle_timeout,
                resume_grace_s=self.resume_grace or 0.0,
                outlives_s=OUTLIVES_S if self.resume_grace is None else self.resume_grace,
            ),
            sessions=count_sessions(self.sessions, gpus),
            sessions_per_model=self.sessions_per_model or 0,
            shared=self.shared,
            codec=self.codec,
            gpus=gpus,
            step_timeout_s=self.step_timeout,
            load_timeout_s=self.load_timeout,
            drain_timeout_s=self.drain_timeout,
            log_level=self.log_level,
            log_format=self.log_format,
            trace=self.trace,
            record=self.record_directory(),
            record_video=self.record_video or "",
        )
        reload = self.reload or (IN_PLACE if reloads_here and options.is_private else NO_RELOAD)
        if reload == NO_RELOAD:
            return options
        return replace(options, reload=ReloadOptions(full=reload != IN_PLACE, overrides=tuple(self.overrides or ())))

    def refuse_on_cluster(self) -> None:
        """Raise UsageError for an option of engines on this machine, which a cluster does not have."""
        reload = None if self.reload == NO_RELOAD else self.reload
        given = {
            "--gpus": self.gpus,
            "--reload": reload,
            "--record": self.record,
            "--trace": self.trace,
        }
        hints = {"--gpus": "--gpus-per-session requests GPUs of the cluster"}
        for name, value in given.items():
            if value:
                raise UsageError(f"{name} is not available with --on ray", hint=hints.get(name, "leave it out"))

    def record_directory(self) -> Path | None:
        """Return the directory for recordings, which is made. Raises UsageError if nothing can be written there."""
        if self.record is None:
            return None
        from reactor_runtime.recording.file import require_extra

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


def declarations(options: type[Any]) -> Iterable[tuple[str, Any, Option]]:
    """Yield name, type and declaration of each field of a class of options."""
    for name, hint in get_type_hints(options, include_extras=True).items():
        yield name, hint.__origin__, hint.__metadata__[0]


def _value(name: str, value: Any, kind: Any, option: Option) -> Any:
    """Return the value of an option that was given as a keyword; raise UsageError for a wrong one."""
    if name == "set":
        return _overrides(value)
    if kind is bool:
        if value is True:
            return True
        raise UsageError(f"{name} is True or False, not {value!r}")
    if value is True and name in BARE:
        return BARE[name]
    if value is True:
        raise UsageError(f"{name} takes a value, not True", hint=f"it is --{name.replace('_', '-')} {option.metavar}")
    if get_origin(kind := _without_none(kind)) is list:
        return [str(each) for each in (value if isinstance(value, list | tuple) else [value])]
    text = ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    try:
        return (option.parse or kind)(text)
    except ValueError as error:
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
    near = difflib.get_close_matches(name, list(declared), n=1)
    listed = "`reactor run --help` lists them; those of a cluster need a reactor.yaml and `reactor run --on ray`"
    return UsageError(f"there is no option {name}", hint=f"did you mean {near[0]}?" if near else listed)


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
