"""What the replies of all ranks mean: the same, not the same, or too late; and the words for it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from reactor_runtime.authoring.code.source import attach_location
from reactor_runtime.distributed.errors import RankDesync, WorkerTimeout
from reactor_runtime.distributed.exchange import MessageKind, RankMessage
from reactor_runtime.distributed.packing import unpack
from reactor_runtime.distributed.remote_error import RemoteError
from reactor_runtime.errors import is_ours

# As faulthandler prints it.
STACK = "Stack (most recent call first)"
_FILE = re.compile(r'^ *File "(.*)", line ')


def raised_in(replies: Mapping[int, RankMessage]) -> dict[int, RemoteError]:
    """Return the exceptions that ranks have raised, in the order of the ranks."""
    return {rank: unpack(each.body) for rank, each in sorted(replies.items()) if each.kind is MessageKind.RAISED}


def desync(
    worker: str,
    kind: MessageKind,
    world_size: int,
    replies: Mapping[int, RankMessage],
    raised: Mapping[int, RemoteError],
) -> RankDesync:
    """Return the error for ranks of which some have raised an exception, and others none or another one."""

    def outcome(rank: int) -> str:
        if rank in raised:
            return f"rank {rank} raised {raised[rank].title}"
        return f"rank {rank} {'returned' if rank in replies else 'did not answer'}"

    # Some readers see the beginning only.
    ranks = sorted(range(world_size), key=lambda rank: rank not in raised)
    error = RankDesync(f"{kind.method} of {worker} was not the same: {'; '.join(map(outcome, ranks))}")
    first = next(iter(raised.values()))
    error.__cause__ = first.to_exception()
    if first.where is not None:
        attach_location(error, first.where)
    return error


def timeout(
    worker: str, kind: MessageKind, late: Sequence[int], answered: Sequence[int], timeout_s: float
) -> WorkerTimeout:
    """Return the error for ranks that are late."""
    others = f"{_listed(answered)} did" if answered else "no rank did"
    return WorkerTimeout(
        f"{kind.method} of {worker} took longer than {timeout_s:g} s: {_listed(late)} did not answer, {others}"
    )


def written_by(rank: int, tail: Iterable[str]) -> str:
    """Return the last lines that a rank has written."""
    lines = "\n".join(f"  {line}" for line in tail)
    return f"rank {rank} wrote last:\n{lines}" if lines else f"rank {rank} wrote nothing"


def position_of(rank: int, tail: Iterable[str]) -> str:
    """Return where a rank was that was aborted: the author's lines of the stack that it has printed."""
    lines = list(tail)
    begins = max((number for number, line in enumerate(lines) if line.startswith(STACK)), default=len(lines))
    found = [line for line in lines[begins + 1 :] if (file := _FILE.search(line)) and not _is_machinery(file[1])]
    return f"rank {rank} was here:\n" + "\n".join(found) if found else written_by(rank, lines)


def _listed(ranks: Sequence[int]) -> str:
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}"


def _is_machinery(file: str) -> bool:
    return file.startswith("<frozen ") or is_ours(file)
