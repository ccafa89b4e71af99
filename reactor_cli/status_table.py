"""The state of a server as `reactor status` shows it: a line about all, and a table with a row for each worker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from reactor_cli.console import printable, size_text

_STYLES = {"ready": "green", "busy": "green", "failed": "bold red"}
# These have no value on a server without workers, or without GPUs.
_OPTIONAL = ("node", "url", "gpu")
_RIGHT = ("clients", "fps", "age", "late", "memory", "up")


def status_table(health: Mapping[str, Any]) -> Group:
    """Return the body of `/health` for people."""
    rows = [_row(engine) for engine in health["engines"]]
    columns = [name for name in (rows[0] if rows else ()) if name not in _OPTIONAL or any(row[name] for row in rows)]
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for name in columns:
        table.add_column(name, justify="right" if name in _RIGHT else "left", overflow="fold")
    for row in rows:
        table.add_row(*(_cell(row[name]) for name in columns))
    return Group(_summary(health), *([table] if rows else []))


def _summary(health: Mapping[str, Any]) -> Text:
    engines: Sequence[Mapping[str, Any]] = health["engines"]
    sessions = sum(engine["session"] is not None for engine in engines)
    waiting = health["waiting"]
    clients = waiting + sum(engine["clients"] for engine in engines)
    gpus = {(engine["node"], gpu) for engine in engines for gpu in engine["gpu"].split(",") if gpu}
    facts = [
        f"{sessions} of {len(engines)} sessions",
        *([f"{health['fitting']} fit: {printable(health['limit'])}"] if health.get("limit") else []),
        f"{waiting} waiting",
        f"{clients} {'client' if clients == 1 else 'clients'}",
        *([f"{len(gpus)} {'GPU' if len(gpus) == 1 else 'GPUs'}"] if gpus else []),
        f"up {_time(health['uptime_s'])}",
    ]
    return Text.assemble(_cell(health["status"]), f"  {printable(health['model'])}  ", (" · ".join(facts), "dim"))


def _row(engine: Mapping[str, Any]) -> dict[str, str]:
    fps, memory_bytes, uptime_s = (engine[name] for name in ("fps", "memory_bytes", "uptime_s"))
    return {
        "id": engine["worker"] or str(engine["number"]),
        "node": engine["node"],
        "url": engine["url"],
        "gpu": engine["gpu"],
        "status": engine["status"],
        "session": engine["session"] or "",
        "clients": str(engine["clients"]),
        "fps": "" if fps is None else f"{fps:.1f}",
        "age": _milliseconds(engine["age_ms"]),
        "late": _milliseconds(engine["late_ms"]),
        "memory": "" if memory_bytes is None else size_text(memory_bytes),
        "up": "" if uptime_s is None else _time(uptime_s),
    }


def _milliseconds(value: float | None) -> str:
    return "" if value is None else f"{value:.1f} ms"


def _cell(text: str) -> Text:
    return Text(printable(text), _STYLES.get(text, ""))


def _time(seconds: float) -> str:
    return str(timedelta(seconds=int(seconds)))
