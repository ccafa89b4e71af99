"""A project as it was in another revision of its Git repository."""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from reactor_runtime.errors import UsageError
from reactor_runtime.manifest import FILE_NAME

REVISION_HINT = "--compare-git needs a commit that has the project: `git log -- reactor.yaml` lists them"


@contextlib.contextmanager
def checked_out(project: Path, revision: str) -> Iterator[Path]:
    """Yield a folder with the project's files in a revision; it is removed after the block.

    Raises UsageError if the project is in no repository, or the repository has no such revision with the project in it.
    """
    top = Path(_git(project, "rev-parse", "--show-toplevel"))
    commit = _commit(project, revision)
    with tempfile.TemporaryDirectory(prefix="reactor-bench-") as folder:
        tree = Path(folder) / "tree"
        _git(project, "worktree", "add", "--detach", str(tree), commit)
        try:
            before = tree / project.resolve().relative_to(top.resolve())
            if not (before / FILE_NAME).is_file():
                raise UsageError(f'{project} has no {FILE_NAME} in "{revision}"', hint=REVISION_HINT)
            yield before
        finally:
            _git(project, "worktree", "remove", "--force", str(tree))


def _commit(project: Path, revision: str) -> str:
    try:
        return _git(project, "rev-parse", "--verify", "--end-of-options", f"{revision}^{{commit}}")
    except UsageError:
        raise UsageError(f'the repository of {project} has no revision "{revision}"', hint=REVISION_HINT) from None


def _git(project: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", str(project), *arguments], capture_output=True, text=True, errors="replace", check=False
        )
    except FileNotFoundError:
        raise UsageError("--compare-git needs git, which is not on the PATH") from None
    if done.returncode:
        raise UsageError(f"git {arguments[0]} failed: {done.stderr.strip() or done.returncode}", hint=REVISION_HINT)
    return done.stdout.strip()
