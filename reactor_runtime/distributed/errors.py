"""The errors of a runner.

ReactorError
├── RunnerUnhealthy              the ranks have been ended; only another start of the model helps
│   ├── WorkerCrashed                a rank has ended
│   ├── WorkerTimeout                a rank has not answered in time
│   └── RankDesync                   the ranks did not do the same
└── SharedSlotAllocationFailed   there is no shared memory; the runner can be used again
"""

from __future__ import annotations

from reactor_runtime.errors import ReactorError


class RunnerUnhealthy(ReactorError):
    """Report a runner whose ranks can't be used any longer; `reactor run` starts the engine again.

    `details` has the last lines that the ranks in question have written.
    """

    def __str__(self) -> str:
        return f"{super().__str__()}\n{self.details}" if self.details else super().__str__()


class WorkerCrashed(RunnerUnhealthy):
    """Report a rank whose process has ended, with its signal or exit code and the last lines that it wrote."""


class WorkerTimeout(RunnerUnhealthy):
    """Report ranks that have not answered in time, and where they were."""


class RankDesync(RunnerUnhealthy):
    """Report that some ranks raised an exception and others did not, or one of another type."""


class SharedSlotAllocationFailed(ReactorError):
    """Report that there is no shared memory for the buffers of a call."""
