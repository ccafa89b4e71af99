"""`reactor bench`: measure what a model costs, alone or beside another config or revision."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reactor_cli import console
from reactor_cli.common_options import (
    Directory,
    PathOption,
    Verbose,
    project_directory,
    typer_parser,
)
from reactor_runtime.errors import UsageError
from reactor_runtime.options.option import duration, whole_number

if TYPE_CHECKING:
    from reactor_cli.bench.figures import ModelCost, Run
    from reactor_cli.bench.measure import Subject

SECONDS = 10.0
PATIENCE_S = 60.0
ROUNDS = 3
# A median of the steps in this time is one value of a comparison: neighbouring steps are not independent.
GROUP_S = 0.5

EPILOG = """
\b
Examples:
  reactor bench                              the project in this directory
  reactor bench my-model --set steps=4       with a value of config.yml overridden
  reactor bench --compare steps=4 steps=8    two configs side by side
  reactor bench --compare-git main           the files of main, and the current ones
  reactor bench --json > figures.json        for programs

\b
Exit codes: 0 measured; 1 the model failed or made no frame; 2 an error in the
command, the manifest, the config or the class; 4 load() failed; 130
interrupted, or ended by SIGTERM.
"""


def bench(
    context: typer.Context,
    directory: Directory = None,
    path: PathOption = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Override a config value; may be repeated."),
    ] = None,
    seconds: Annotated[
        float,
        typer.Option(
            "--seconds", parser=typer_parser(duration), metavar="TIME", help="How long to measure, in each round."
        ),
    ] = SECONDS,
    compare: Annotated[
        tuple[str, str] | None,
        typer.Option("--compare", metavar="KEY=VALUE KEY=VALUE", help="Measure two configs in turn."),
    ] = None,
    compare_git: Annotated[
        str | None,
        typer.Option("--compare-git", metavar="REV", help="Measure the files of a revision and the current ones."),
    ] = None,
    rounds: Annotated[
        int | None,
        typer.Option(
            "--rounds",
            parser=typer_parser(whole_number(1)),
            metavar="N",
            help="How often to measure; 3 in a comparison, else 1.",
        ),
    ] = None,
    patience: Annotated[
        float,
        typer.Option(
            "--patience", parser=typer_parser(duration), metavar="TIME", help="How long to wait for the first frame."
        ),
    ] = PATIENCE_S,
    plot: Annotated[
        Path | None,
        typer.Option(
            "--plot",
            metavar="FILE",
            help="Draw the steps and the stages of a frame in FILE.png or FILE.html. Needs an extra: "
            "pip install 'reactor-live[plot]'.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
    verbose: Verbose = False,
) -> int:
    """Measure what a model costs: loading, steps, frame rate, memory, and where the time of a frame goes.

    Serves the project as `reactor run` does, and controls it with a client that sends images, sound and values.
    """
    from reactor_cli.bench.measure import ServerFailed

    context.ensure_object(console.Settings).verbose = verbose
    _check_options(overrides, compare, compare_git, seconds, plot)
    measuring = _Measuring(seconds, patience)
    # The folders of this command are removed, as they are after Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with _subjects(project_directory(directory, path), tuple(overrides or ()), compare, compare_git) as subjects:
            runs = measuring.run_in_turn(subjects, rounds or (ROUNDS if len(subjects) > 1 else 1))
    except ServerFailed as failed:
        # The server has printed the error.
        return failed.code or 1
    _report(subjects, runs, plot, as_json=as_json)
    return 0


def _check_options(
    overrides: list[str] | None,
    compare: tuple[str, str] | None,
    compare_git: str | None,
    seconds: float,
    plot: Path | None,
) -> None:
    from reactor_cli.bench.plot import check_plot
    from reactor_runtime import config

    # The server would refuse the second one only after the first was measured.
    for value in compare or ():
        config.override({}, [config.Override.parse(each) for each in (*(overrides or ()), value)])
    if compare is not None and compare_git is not None:
        raise UsageError("--compare and --compare-git both name what is compared", hint="leave out one of them")
    if not seconds:
        raise UsageError("--seconds is 0", hint="10 is the default; more steps give steadier figures")
    if plot is not None:
        check_plot(plot)


@contextlib.contextmanager
def _subjects(
    project: Path, overrides: tuple[str, ...], compare: tuple[str, str] | None, compare_git: str | None
) -> Iterator[list[Subject]]:
    """Yield the one or two subjects, whose files exist in the block. Raises ServerFailed for a wrong class."""
    from reactor_cli.bench.measure import Subject, declared_fps
    from reactor_cli.bench.revision import checked_out

    fps = declared_fps(project)
    if compare is not None:
        yield [Subject(each, project, (*overrides, each), fps) for each in compare]
    elif compare_git is not None:
        with checked_out(project, compare_git) as before:
            yield [
                Subject(compare_git, before, overrides, declared_fps(before)),
                Subject("now", project, overrides, fps),
            ]
    else:
        yield [Subject(project.resolve().name, project, overrides, fps)]


class _Measuring:
    """Measure subjects, with a bar of progress on a terminal."""

    def __init__(self, seconds: float, patience_s: float) -> None:
        self._seconds = seconds
        self._patience_s = patience_s

    def run_in_turn(self, subjects: Sequence[Subject], rounds: int) -> list[list[Run]]:
        """Return the runs of each subject; one round measures every subject."""
        runs: list[list[Run]] = [[] for _ in subjects]
        for number in range(1, rounds + 1):
            for subject, own in zip(subjects, runs, strict=True):
                round_name = f", round {number} of {rounds}" if rounds > 1 else ""
                own.append(self._run(subject, f"{subject.name}{round_name}"))
        return runs

    def _run(self, subject: Subject, what: str) -> Run:
        from reactor_cli.bench.measure import measure

        with _progress(what, self._seconds) as (describe, advance):
            return measure(
                subject,
                seconds=self._seconds,
                patience_s=self._patience_s,
                on_loading=describe,
                on_progress=advance,
            )


@contextlib.contextmanager
def _progress(what: str, seconds: float) -> Iterator[tuple[Any, Any]]:
    """Show a bar of the measured seconds on stderr; yield functions that take a line, and the seconds so far."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    to = Console(stderr=True)
    if not to.is_terminal:
        console.err(f"measuring {what} for {seconds:g} s")
        yield console.err, lambda _: None
        return
    with Progress(
        TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn(), console=to, transient=True
    ) as bar:
        task = bar.add_task(f"loading {console.printable(what)}", total=seconds)
        yield (
            lambda line: bar.update(task, description=console.printable(line)),
            lambda passed: bar.update(task, completed=passed, description=f"measuring {console.printable(what)}"),
        )


def _report(subjects: Sequence[Subject], runs: Sequence[Sequence[Run]], plot: Path | None, *, as_json: bool) -> None:
    """Draw the file of --plot, and print the figures of one subject, or of two side by side."""
    from reactor_cli.bench.figures import figures_of

    costs = [figures_of(own, subject.declared_fps) for subject, own in zip(subjects, runs, strict=True)]
    if plot is not None:
        _write_plot(plot, subjects, runs, costs)
    if len(subjects) > 1:
        _print_comparison(subjects, runs, costs, as_json=as_json)
    else:
        _print_figures(subjects[0], costs[0], as_json=as_json)


def _write_plot(
    path: Path, subjects: Sequence[Subject], runs: Sequence[Sequence[Run]], costs: Sequence[ModelCost]
) -> None:
    from reactor_cli.bench.plot import write_plot

    try:
        write_plot(path, [subject.name for subject in subjects], runs, costs)
    except OSError as error:
        raise UsageError(f"{path} can't be written: {error.strerror}") from None
    console.err(f"written: {console.printable(str(path))}")


def _print_figures(subject: Subject, figures: ModelCost, *, as_json: bool) -> None:
    import json

    from reactor_cli.bench.advice import suggest_changes
    from reactor_cli.bench.tables import figures_table

    suggested = list(suggest_changes(figures))
    if as_json:
        console.out(json.dumps({"name": subject.name, **figures.to_json(), "advice": suggested}, indent=2))
        return
    console.out(console.paint(console.printable(subject.name), "bold"))
    console.out(figures_table(figures))
    for sentence in suggested:
        console.out(f"{console.paint('hint:', 'cyan')} {sentence}")


def _print_comparison(
    subjects: Sequence[Subject], runs: Sequence[Sequence[Run]], costs: Sequence[ModelCost], *, as_json: bool
) -> None:
    import json

    from reactor_cli.bench.significance import p_value, rounds_needed
    from reactor_cli.bench.tables import comparison, describe_difference

    first, second = ([median for run in own for median in run.step_medians(GROUP_S)] for own in runs)
    p, rounds = p_value(first, second), rounds_needed(len(first), len(second), len(runs[0]))
    if as_json:
        both = [{"name": each.name, **figures.to_json()} for each, figures in zip(subjects, costs, strict=True)]
        console.out(json.dumps({"compared": both, "p_value": p, "rounds_needed": rounds}, indent=2))
        return
    names = [console.printable(subject.name) for subject in subjects]
    console.out(comparison(names, *costs))
    console.out(describe_difference(names, *costs, p=p, rounds=rounds))
