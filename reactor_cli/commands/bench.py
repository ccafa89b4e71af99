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
    Overrides,
    PathOption,
    Verbose,
    duration,
    project_directory,
    whole_number,
)
from reactor_runtime.errors import UsageError

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
  reactor bench --compare-git main           the files of main, and those of now
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
    overrides: Overrides = None,
    seconds: Annotated[
        float, typer.Option("--seconds", parser=duration, metavar="TIME", help="How long to measure, in each round.")
    ] = SECONDS,
    compare: Annotated[
        tuple[str, str] | None,
        typer.Option("--compare", metavar="KEY=VALUE KEY=VALUE", help="Measure two configs in turn."),
    ] = None,
    compare_git: Annotated[
        str | None,
        typer.Option("--compare-git", metavar="REV", help="Measure the files of a revision and those of now."),
    ] = None,
    rounds: Annotated[
        int | None,
        typer.Option(
            "--rounds", parser=whole_number(1), metavar="N", help="How often to measure; 3 in a comparison, else 1."
        ),
    ] = None,
    patience: Annotated[
        float, typer.Option("--patience", parser=duration, metavar="TIME", help="How long to wait for the first frame.")
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
    from reactor_cli.bench.measure import ServerFailed, Subject
    from reactor_cli.bench.plot import check_plot

    context.ensure_object(console.Settings).verbose = verbose
    if compare is not None and compare_git is not None:
        raise UsageError("--compare and --compare-git both name what is compared", hint="leave out one of them")
    if not seconds:
        raise UsageError("--seconds is 0", hint="10 is the default; more steps give steadier figures")
    if plot is not None:
        check_plot(plot)
    project = project_directory(directory, path)
    given = tuple(overrides or ())
    declared_fps = _declared_fps(project)
    measuring = _Measuring(seconds, patience, declared_fps, plot)
    # The server has to end with this command, as it does after Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        if compare is not None:
            subjects = [Subject(each, project, (*given, each)) for each in compare]
            _print_comparison(measuring, subjects, rounds or ROUNDS, as_json=as_json)
        elif compare_git is not None:
            from reactor_cli.bench.revision import checked_out

            with checked_out(project, compare_git) as before:
                subjects = [Subject(compare_git, before, given), Subject("now", project, given)]
                _print_comparison(measuring, subjects, rounds or ROUNDS, as_json=as_json)
        else:
            _print_figures(measuring, Subject(project.resolve().name, project, given), rounds or 1, as_json=as_json)
    except ServerFailed as failed:
        # The server has printed the error.
        return failed.code or 1
    return 0


def _declared_fps(project: Path) -> float | None:
    """Return the rate that the class declares; None if it follows the time of a step. Raises what `check` raises."""
    from reactor_cli.child import run_in_child

    def outline(_: object) -> dict[str, Any]:
        from reactor_runtime import manifest, schema

        checked = manifest.load(project)
        with manifest.pointing_at(checked):
            return {"fps": schema.contract_of(checked.project, checked.module, checked.class_name).fps}

    fps: float | None = run_in_child(outline)["fps"]
    return fps


class _Measuring:
    """Measure subjects, with a bar of progress on a terminal."""

    def __init__(self, seconds: float, patience_s: float, declared_fps: float | None, plot: Path | None) -> None:
        self.declared_fps = declared_fps
        self._plot = plot
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

    def cost(self, names: Sequence[str], runs: Sequence[Sequence[Run]]) -> list[ModelCost]:
        """Return the figures of each subject's runs, and draw them in the file of --plot."""
        from reactor_cli.bench.figures import figures_of
        from reactor_cli.bench.plot import write_plot

        costs = [figures_of(own, self.declared_fps) for own in runs]
        if self._plot is not None:
            try:
                write_plot(self._plot, names, runs, costs)
            except OSError as error:
                raise UsageError(f"{self._plot} can't be written: {error.strerror}") from None
        return costs


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


def _print_figures(measuring: _Measuring, subject: Subject, rounds: int, *, as_json: bool) -> None:
    import json

    from reactor_cli.bench.advice import advice
    from reactor_cli.bench.tables import table

    (runs,) = measuring.run_in_turn([subject], rounds)
    (figures,) = measuring.cost([subject.name], [runs])
    suggested = list(advice(figures))
    if as_json:
        console.out(json.dumps({"name": subject.name, **figures.to_json(), "advice": suggested}, indent=2))
        return
    console.out(console.paint(console.printable(subject.name), "bold"))
    console.out(table(figures))
    for sentence in suggested:
        console.out(f"{console.paint('hint:', 'cyan')} {sentence}")


def _print_comparison(measuring: _Measuring, subjects: list[Subject], rounds: int, *, as_json: bool) -> None:
    import json

    from reactor_cli.bench.significance import chance
    from reactor_cli.bench.tables import comparison, verdict

    runs = measuring.run_in_turn(subjects, rounds)
    first, second = measuring.cost([subject.name for subject in subjects], runs)
    groups = [[median for run in own for median in run.step_medians(GROUP_S)] for own in runs]
    p = chance(*groups)
    names = [console.printable(subject.name) for subject in subjects]
    if as_json:
        both = [
            {"name": each.name, **figures.to_json()} for each, figures in zip(subjects, (first, second), strict=True)
        ]
        console.out(json.dumps({"compared": both, "chance": p}, indent=2))
        return
    console.out(comparison(names, first, second))
    console.out(verdict(names, first, second, chance=p))
