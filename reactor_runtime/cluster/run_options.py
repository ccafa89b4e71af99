"""The options of `reactor run --on ray`, declared in the order of --help, and the `ClusterOptions` made of them."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from reactor_runtime.errors import UsageError
from reactor_runtime.options.option import Option, duration, one_of, whole_number

if TYPE_CHECKING:
    from reactor_runtime.cluster.options import ClusterOptions
    from reactor_runtime.manifest import Manifest

RAY = "ray"
MAX_ENGINES = 64
MAX_WORKERS = 10_000
MAX_SHARE = 64
DEFAULT_WORKERS = 1
_ADDRESS = re.compile(r"[^/\s]+:\d{1,5}", re.ASCII)
_PORTS = re.compile(r"(\d{1,5})-(\d{1,5})", re.ASCII)
_FILE_OPTION = re.compile(r"\s*(?:-[rcef]|--(?:requirement|constraint|editable|find-links))[\s=]*(?P<path>\S+)")
_ARCHIVES = (".whl", ".zip", ".tar.gz")
_URL = re.compile(r"https?://[^/{}][^{}]*")


def _share(given: str | float) -> float:
    """Return a number of GPUs or CPUs: a whole one, or a fraction of one."""
    try:
        number = float(given)
    except ValueError:
        number = -1.0
    if not 0 <= number <= MAX_SHARE or (number > 1 and number != int(number)):
        raise ValueError(f'"{given}" is neither a whole number up to {MAX_SHARE} nor a share such as 0.5')
    return number


def ray_address(given: str) -> str:
    """Return the address of a cluster; "" is a Ray on this machine. Raises ValueError for another text."""
    if given not in ("", "auto") and not _ADDRESS.fullmatch(given):
        raise ValueError(f'"{given}" is neither auto nor an address such as 10.0.0.1:6379')
    return given


def _ports(given: str | range) -> range:
    if isinstance(given, range):
        return given
    match = _PORTS.fullmatch(given.strip())
    first, last = (int(match[1]), int(match[2])) if match else (0, 0)
    if not 0 < first <= last <= 65535:
        raise ValueError(f'"{given}" is not a range of ports, such as 9000-9099')
    return range(first, last + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterRunOptions:
    """The values of the options, as given; each field declares an option."""

    on: Annotated[
        str | None,
        Option(
            "Serve on a cluster of Ray: the models run on its nodes, and this process admits clients.",
            metavar=RAY,
            parse=one_of((RAY,)),
            default_text="this machine",
        ),
    ] = None
    ray_address: Annotated[
        str,
        Option(
            "The cluster's address, such as 10.0.0.1:6379; auto is the one on this machine.",
            metavar="ADDRESS",
            parse=ray_address,
            default_text="starts Ray on this machine",
        ),
    ] = ""
    cluster: Annotated[
        str,
        Option(
            "The name of the cluster, if several fronts use one Ray.",
            metavar="NAME",
            default_text="the project's name",
        ),
    ] = ""
    gpus_per_session: Annotated[
        float, Option("GPUs that each loaded model needs; 0.5 shares one between two.", metavar="N", parse=_share)
    ] = 0.0
    cpus_per_session: Annotated[float, Option("CPUs that each loaded model needs.", metavar="N", parse=_share)] = 1.0
    least: Annotated[
        int | None,
        Option(
            "Keep N models loaded.",
            "--min",
            "N",
            parse=whole_number(0, MAX_WORKERS),
            default_text="--sessions",
        ),
    ] = None
    most: Annotated[
        int | None,
        Option("Most loaded models.", "--max", "N", parse=whole_number(1, MAX_WORKERS), default_text="--sessions"),
    ] = None
    spare: Annotated[
        int,
        Option(
            "Keep models for N more sessions loaded than clients use.",
            metavar="N",
            parse=whole_number(0, MAX_WORKERS),
        ),
    ] = 0
    idle_after: Annotated[
        float, Option("Unload a model that is free for TIME.", metavar="TIME", parse=duration, default_text="10m")
    ] = 600.0
    relay: Annotated[bool, Option("Pass everything through this process: clients can't reach the nodes.")] = False
    worker_ports: Annotated[
        range | None,
        Option("The ports of nodes that sessions listen on.", metavar="FIRST-LAST", parse=_ports, default_text="any"),
    ] = None
    worker_url: Annotated[
        str,
        Option(
            "The URL of a session for clients, with {host}, {node} and {port} of its node.",
            metavar="URL",
            default_text="http://{host}:{port}",
        ),
    ] = ""
    project_on_nodes: Annotated[
        bool, Option("Use the project at the same path of each node; by default Ray copies it there.")
    ] = False
    requirements: Annotated[
        Path | None,
        Option(
            "Install the packages of FILE on each node before the model is loaded, such as requirements.txt.",
            metavar="FILE",
            default_text="the nodes have the packages",
        ),
    ] = None

    def cluster_options(self, manifest: Manifest, sessions: int | None) -> ClusterOptions | None:
        """Return the options of the cluster, None without --on. Raises UsageError for a wrong value or combination."""
        if self.on is None:
            self._refuse_without_on()
            if sessions is not None and sessions > MAX_ENGINES:
                raise UsageError(
                    f"--sessions {sessions} is above {MAX_ENGINES}, the most of one machine",
                    hint="--on ray serves more, on several machines",
                )
            return None
        from reactor_runtime.cluster.front.scaling import Scaling
        from reactor_runtime.cluster.options import ClusterOptions

        wanted = sessions or DEFAULT_WORKERS
        least = wanted if self.least is None else self.least
        most = max(wanted, least) if self.most is None else self.most
        if least > most:
            given = "--sessions" if self.least is None else "--min"
            raise UsageError(f"{given} {least} is above --max {most}", hint="--max is the most loaded models")
        if self.spare > most:
            raise UsageError(f"--spare {self.spare} is above --max {most}", hint="spare models count as well")
        return ClusterOptions(
            name=self.cluster or manifest.name,
            scaling=Scaling(least=least, most=most, spare=self.spare, idle_after_s=self.idle_after),
            address=self.ray_address,
            gpus_per_session=self.gpus_per_session,
            cpus_per_session=self.cpus_per_session,
            relays_all=self.relay,
            worker_ports=(0, 0) if self.worker_ports is None else (self.worker_ports[0], self.worker_ports[-1]),
            worker_url=_worker_url(self.worker_url),
            is_on_nodes=self.project_on_nodes,
            requirements=() if self.requirements is None else _requirements(self.requirements),
        )

    def _refuse_without_on(self) -> None:
        defaults = asdict(ClusterRunOptions())
        for field, value in asdict(self).items():
            if value != defaults[field]:
                name = {"least": "min", "most": "max"}.get(field, field.replace("_", "-"))
                raise UsageError(f"--{name} needs --on ray", hint="`reactor run --on ray …`")


def _requirements(file: Path) -> tuple[str, ...]:
    """Return the lines of a requirements file. Raises UsageError if it can't be read, or names files beside it."""
    try:
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise UsageError(f"--requirements {file} can't be read: {error.strerror}") from None
    lines = [line for line in lines if line.strip() and not line.lstrip().startswith("#")]
    for line in lines:
        if _names_relative_path(line):
            raise UsageError(
                f'--requirements {file}: "{line.strip()}" names a file that the nodes do not have',
                hint="only the lines of FILE are sent to them: name packages, URLs, or absolute paths of the nodes",
            )
    return tuple(lines)


def _names_relative_path(line: str) -> bool:
    """Return whether a line of a requirements file refers to a file or a directory relative to it."""
    if option := _FILE_OPTION.match(line):
        path = option["path"]
    else:
        path = line.split()[0]
        if path.startswith("-") or not ("/" in path or path.startswith(".") or path.endswith(_ARCHIVES)):
            return False
    return not (path.startswith(("/", "${")) or ":" in path)


def _worker_url(text: str) -> str:
    """Return the template of the workers' URLs. Raises UsageError if it is none."""
    try:
        url = text.format(host="h", node="n", port=1)
    except (ValueError, LookupError, AttributeError, TypeError):
        url = ""
    if text and not _URL.fullmatch(url):
        raise UsageError(
            f'--worker-url "{text}" is not a URL with {{host}}, {{node}} and {{port}}',
            hint="such as https://{node}.example.org:{port}",
        )
    return text.rstrip("/")
