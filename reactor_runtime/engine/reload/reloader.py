"""Reloads a model: imports changed modules, replaces the code between two steps, restores the old code on failure."""

from __future__ import annotations

import gc
import linecache
import logging
import weakref
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, Self

from reactor_runtime import errors
from reactor_runtime.authoring.contract import Contract
from reactor_runtime.authoring.importing import import_class
from reactor_runtime.authoring.model_config import model_config
from reactor_runtime.authoring.presets import NO_PRESETS, Presets, check_presets
from reactor_runtime.authoring.styles.model import Model
from reactor_runtime.clock import Clock, Timer
from reactor_runtime.config import GivenConfig, is_same
from reactor_runtime.engine.author import session_failure, with_made_outputs
from reactor_runtime.engine.first_step import FirstStep
from reactor_runtime.engine.leaks import kept_model_warning
from reactor_runtime.engine.reload.migration import LayoutChanged, Migration, outdated_attributes
from reactor_runtime.engine.reload.modules import Execution, ProjectModules
from reactor_runtime.engine.reload.preparation import Preparations
from reactor_runtime.engine.runners import ModelRunners
from reactor_runtime.engine.served import ServedModel, Version
from reactor_runtime.engine.session import ModelSession
from reactor_runtime.engine.session_log import ReloadOutcome
from reactor_runtime.engine.session_state import States
from reactor_runtime.engine.warm_up import WARM_UP
from reactor_runtime.ipc.messages import Described, Reloaded, ToServer
from reactor_runtime.recording.pieces import ReloadKind

logger = logging.getLogger(__name__)

# New code that has neither made a step nor failed after this time is kept: it may wait for an input.
TRIAL_S = 0.5
# Report after this time that the old model is still in memory.
FREED_S = 1.0
# Report after this time that the old code has not ended.
LATE_S = 5.0
CONFIG_CHANGED = "the config has changed"
RECORDED = "the recorded session loaded it again"
LATE_HINTS = {
    "start_session": "return when get_ctx().should_stop() is true, or start `reactor run` again",
    "run": "raise CancelledError again where it is caught, or start `reactor run` again",
}

Config = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReloadSettings:
    """Configure hot reload: the modules of the project, and the `place` of the model, its module and its name there.

    `config` is what the project gives to the model. With `keeps_sessions` an exception of the author's code does not
    end the session, which waits for other code. `while_loading` is entered around each further load.
    """

    modules: ProjectModules
    place: tuple[str, str]
    config: GivenConfig
    keeps_sessions: bool = False
    while_loading: Callable[[Contract], AbstractContextManager[object]] = lambda _: nullcontext()


@dataclass(frozen=True, slots=True)
class _Candidate:
    """Hold new code that is to be applied; with a `reason` the model is loaded again.

    Without `on_trial` it is the code that ran before, which is not reported, and stays if its first step fails.
    """

    contract: Contract
    config: Config
    reason: str = ""
    execution: Execution | None = None
    on_trial: bool = True

    @classmethod
    def running(cls, served: Version) -> Self:
        """Return the code that runs, which starts again."""
        return cls(served.contract, served.config, on_trial=False)

    @classmethod
    def configured(cls, served: Version, config: Config, *, broken: bool) -> Self | None:
        """Return the code that is served, with this config; None if there is nothing to apply."""
        if not is_same(config, served.config):
            return cls(served.contract, config, CONFIG_CHANGED)
        return cls(served.contract, config) if broken else None

    def undo(self) -> None:
        if self.execution is not None:
            self.execution.undo()


@dataclass(slots=True)
class _Trial:
    """Hold the old code until the first step of the new code has succeeded."""

    before: Version
    # Whether the old code had failed: it does not run again.
    was_broken: bool
    undo: list[Callable[[], object]]
    states: States | None = None
    timer: Timer | None = None
    # Names the attributes that keep old code.
    note: str = ""
    # Whether a later save, or a handler, has failed: its error is shown, not the success of this trial.
    is_outdated: bool = False


def describe(contract: Contract) -> Described:
    """Return the message to the server about a class that passed its checks."""
    return Described(contract.to_json(), contract.config_file)


class LoadingHost(Protocol):
    """Load the model that a reloader replaces."""

    @property
    def runners(self) -> ModelRunners:
        """Return the runners of the model, whose workers have the code from their start."""
        ...

    def load_again(self, contract: Contract, given: GivenConfig) -> Version:
        """Make and load an instance; raise a ReactorError, with the served one unchanged, if that fails."""
        ...


class ReloadingHost(Protocol):
    """Serve the model that a reloader replaces."""

    first_step: FirstStep

    def swap_soon(self) -> None:
        """Call `Reloader.apply` when the author's code that makes frames has ended."""

    def serve_version(self, version: Version, states: States | None = None) -> States:
        """Serve another version, with the states of the session if they are known; return the states before."""
        ...

    @property
    def session(self) -> ModelSession | None: ...

    def send_message(self, message: ToServer) -> None: ...

    def warn(self, warning: errors.ReactorError) -> None: ...

    def on_exception(self, error: BaseException) -> None:
        """Note an exception of the author's code that does not end the session."""


class Reloader:
    """Replace the code of a model; belongs to the loop and the thread of the model."""

    def __init__(
        self,
        host: ReloadingHost,
        loading: LoadingHost,
        served: ServedModel,
        settings: ReloadSettings,
        *,
        project: Path,
        clock: Clock,
    ) -> None:
        self.broken = False
        self._host = host
        self._loading = loading
        self._served = served
        # `load()`, which comes later, may assign others, also to the class.
        self._declared_seats = served.contract.seats
        self._project = project
        self._modules = settings.modules
        self._place = settings.place
        self._given = settings.config
        self._keeps_sessions = settings.keeps_sessions
        self._clock = clock
        self._candidate: _Candidate | None = None
        self._trial: _Trial | None = None
        self._late: Timer | None = None
        self._preparations = Preparations()

    @property
    def pending(self) -> bool:
        return self._candidate is not None

    @property
    def on_trial(self) -> bool:
        return self._trial is not None

    def reload(
        self, config: GivenConfig | Config | None = None, presets: Presets = NO_PRESETS, *, everything: bool = False
    ) -> None:
        """Import the modules that have changed on disk, and those that import them; apply them at the end of the step.

        Reports the outcome, and changes nothing if the import fails or the code does not fit the presets. With
        `everything` all modules are executed again.
        """
        restarts = self._drop_candidate()
        self._given = self._given if config is None else GivenConfig.of(config)
        names = frozenset(self._modules.sources) if everything else self._modules.changed()
        try:
            candidate: _Candidate | None
            if names:
                candidate = self._import(names, presets)
            else:
                check_presets(self._served.contract, presets, self._project)
                values = self._values_for(self._served.contract.model)
                candidate = _Candidate.configured(self._served.version, values, broken=self.broken)
        except errors.ReactorError as error:
            self._report_failure(error)
        else:
            if candidate is not None:
                self._offer(candidate)
                return
            self._report("unchanged")
        if restarts:
            self._offer(_Candidate.running(self._served.version))

    def replace(self, model: type) -> None:
        """Apply a class that was defined by other means than a file; raise ClassError if it can't be served."""
        restarts = self._drop_candidate()
        try:
            contract = Contract.of(model)
            contract.style.check_finished(model)
        except errors.ReactorError:
            if restarts:
                self._offer(_Candidate.running(self._served.version))
            raise
        self._offer(_Candidate(contract, self._served.version.config))

    def repeat(self, config: GivenConfig | None) -> None:
        """Apply the code that runs again, as a replay does where the recorded session had a reload.

        With a `config` the model is loaded again. The code stays if its first step fails.
        """
        if config is None:
            self._offer(_Candidate.running(self._served.version))
            return
        self._given, contract = config, self._served.contract
        self._offer(_Candidate(contract, self._values_for(contract.model), RECORDED, on_trial=False))

    def _values_for(self, model: type[Model]) -> Config:
        return model_config(model, self._given, self._project).values

    def apply(self) -> None:
        """Apply the code that waits; with a session it is on trial until its first step has been made."""
        candidate = self._take_candidate()
        assert candidate is not None, "the driver applies only pending code"
        self.step_made()
        before = self._served.version
        trial = _Trial(before, self.broken, undo=[candidate.undo])
        try:
            version = self._make(candidate, trial)
        except errors.ReactorError as error:
            self._go_back(trial)
            self._log_start("failed")
            if self.broken:
                self._log_failure(error)
            self._report_failure(error)
            return
        trial.states = self._host.serve_version(version)
        self._host.first_step.check_again()
        self.broken = False
        self._log_start("applied" if version.model is before.model else "loaded")
        if not candidate.on_trial:
            return
        self._trial = trial
        if self._host.session is not None:
            trial.timer = self._clock.call_at(self._clock.now() + TRIAL_S, self.step_made)
        else:
            self.step_made()

    def begin_session(self) -> None:
        """Run code that has failed again, for a new session."""
        self.broken = False

    def outcome(self, kind: ReloadKind) -> ReloadOutcome:
        """Return what is served now, after a reload of this kind."""
        sources = {source.file: source.data for source in self._modules.sources.values()}
        return ReloadOutcome(kind, self._served.contract, self._served.version.config, sources)

    def step_made(self) -> None:
        """Keep the code on trial, and report it; does nothing if there is none."""
        trial, self._trial = self._trial, None
        if trial is None:
            return
        if trial.timer is not None:
            trial.timer.cancel()
        if trial.before.model is not self._served.model:
            former = weakref.ref(trial.before.model)
            self._clock.call_at(self._clock.now() + FREED_S, lambda: self._report_kept(former))
        described = describe(self._served.contract)
        if described != describe(trial.before.contract):
            self._host.send_message(described)
        if not trial.is_outdated:
            self._report("applied", trial.note)

    def keep_session(self, error: BaseException) -> bool:
        """Return whether the session continues after an exception of the author's code, which is reported.

        Code on trial is replaced by the old code. Without a trial, and with `keeps_sessions`, no code runs until the
        next reload; the same if the old code had failed. An exception in the warm-up ends the engine.
        """
        session = self._host.session
        trial, self._trial = self._trial, None
        if trial is None and (not self._keeps_sessions or (session is not None and session.id == WARM_UP)):
            return False
        found = session_failure(error, self._project)
        logger.error("%s", found, exc_info=errors.from_author(error))
        if trial is not None:
            self._go_back(trial)
            self._log_start("reverted")
        if trial is None or trial.was_broken:
            self.broken = True
            self._log_failure(error)
        self._host.on_exception(error)
        self._report_failure(found)
        return True

    def report_exception(self, error: BaseException) -> None:
        """Report an exception of a handler, which changes nothing else."""
        if self._keeps_sessions:
            self._report_failure(errors.author_error(errors.ModelFailed, "a handler failed", error, self._project))

    def _offer(self, candidate: _Candidate) -> None:
        if candidate.contract.style is not self._served.contract.style:
            candidate.undo()
            base = candidate.contract.style.base.__name__
            self._report("restarting", f"{candidate.contract.model.__name__} is a {base} now")
            return
        is_other_class = candidate.contract.model is not self._served.contract.model
        if is_other_class and candidate.contract.seats != self._declared_seats:
            candidate.undo()
            self._report("restarting", f"a session has {candidate.contract.seats} seats now")
            return
        if candidate.reason and self._loading.runners.modules:
            # Two sets of ranks may not fit into the memory of the GPUs.
            candidate.undo()
            self._report("restarting", candidate.reason)
            return
        self._candidate = candidate
        self._report_late_from(self._clock.now())
        self._host.swap_soon()

    def _drop_candidate(self) -> bool:
        """Undo the import of code that was never applied; return whether running code was requested to end for it."""
        candidate = self._take_candidate()
        if candidate is None:
            return False
        candidate.undo()
        return not self.broken

    def _take_candidate(self) -> _Candidate | None:
        if self._late is not None:
            self._late.cancel()
        candidate, self._candidate = self._candidate, None
        return candidate

    def _report_late_from(self, now: float) -> None:
        """Report old code that has not ended in time; a step that blocked the loop gets as much time again."""
        due = now + LATE_S

        def report() -> None:
            if (now := self._clock.now()) > due + LATE_S / 2:
                self._report_late_from(now)
                return
            method = self._served.contract.style.frames_method
            message = f"{method}() has not ended after {LATE_S:g} s, and the new code waits for it"
            self._report_failure(errors.ClassError(message, hint=LATE_HINTS.get(method, LATE_HINTS["run"])))

        self._late = self._clock.call_at(due, report)

    def _import(self, names: Iterable[str], presets: Presets) -> _Candidate:
        linecache.checkcache()
        module, class_name = self._place
        execution = Execution(self._modules, self._modules.importing(names, module))
        with execution.importing():
            try:
                model = import_class(self._project, module, class_name)
                contract = Contract.of(model)
                contract.style.check_finished(model)
                check_presets(contract, presets, self._project)
                config = self._values_for(contract.model)
            except BaseException:
                execution.undo()
                raise
        reason = CONFIG_CHANGED
        if is_same(config, self._served.version.config):
            reason = _load_reason(type(self._served.model), model, execution, self._modules, self._preparations)
        if not reason and (outdated := sorted(execution.old.keys() & set(self._loading.runners.modules))):
            reason = f"the ranks run the old {outdated[0]}"
        return _Candidate(contract, config, reason, execution)

    def _make(self, candidate: _Candidate, trial: _Trial) -> Version:
        """Return the version of the new code: the same instance with another class, or a new one that was loaded."""
        reason = candidate.reason
        if not reason:
            execution = candidate.execution
            old, new = ({}, {}) if execution is None else (execution.old, execution.new)
            migration = Migration(old, new)
            if execution is None and type(self._served.model) is not candidate.contract.model:
                migration.replace_class(type(self._served.model), candidate.contract.model)
            try:
                migration.apply()
            except LayoutChanged as error:
                reason = str(error)
            else:
                trial.undo.insert(0, migration.undo)
                trial.note = _outdated(self._served.model, execution, self._modules)
                contract = candidate.contract.with_seats(self._served.contract.seats)
                served = self._served.version
                made = with_made_outputs(contract, served.model)
                return replace(served, contract=made, config=candidate.config)
        self._report("loading", reason)
        return self._loading.load_again(candidate.contract, self._given)

    def _go_back(self, trial: _Trial) -> None:
        """Restore the model, contract and config from before the trial."""
        if trial.timer is not None:
            trial.timer.cancel()
        for undo in trial.undo:
            undo()
        if self._served.version is not trial.before:
            self._host.serve_version(trial.before, trial.states)

    def _report_kept(self, former: weakref.ref[Model]) -> None:
        """Report a former model that stays in memory."""
        if former() is None:
            return
        # An exception of its code may refer to it in a cycle.
        gc.collect()
        if (model := former()) is not None:
            self._host.warn(kept_model_warning(model))

    def _log_start(self, kind: ReloadKind) -> None:
        """Report to the log of the session that the code that makes frames starts again."""
        if (session := self._host.session) is not None:
            session.log_reload(self.outcome(kind))

    def _log_failure(self, error: BaseException) -> None:
        """Report to the log of the session that no code makes frames until the next reload."""
        if (session := self._host.session) is not None:
            session.fail_step(session_failure(error, self._project).message)

    def _report_failure(self, error: errors.ReactorError) -> None:
        if self._trial is not None:
            self._trial.is_outdated = True
        self._report("failed", error=errors.to_json(error))

    def _report(self, status: str, reason: str = "", error: Mapping[str, Any] | None = None) -> None:
        self._host.send_message(Reloaded(status, reason, None if error is None else dict(error)))


def _outdated(model: Model, execution: Execution | None, modules: ProjectModules) -> str:
    """Return in one line which attributes of the model keep code that has changed; "" for none."""
    if execution is None:
        return ""
    before = {name: execution.old_sources[name] for name in execution.old}
    names = outdated_attributes(model, before, modules.sources)
    attributes = ", ".join(f"self.{name}" for name in names)
    reason = "a reload does not replace code defined inside a function, or held in a list or dict"
    return f"old code still runs in {attributes}: {reason}" if names else ""


def _load_reason(
    before: type, model: type, execution: Execution, modules: ProjectModules, preparations: Preparations
) -> str:
    """Return why a new class needs to be loaded; "" if the instance can get it."""
    name, module = model.__qualname__, model.__module__
    if (before.__module__, before.__qualname__) != (module, name):
        return f"the class is {name} of {module} now"
    if module not in modules.sources:
        # It is not of the project, and was not executed again.
        return ""
    return preparations.change(execution.old_sources, modules.sources, module, name)
