"""Whether the kernel has killed a process for lack of memory, read from the files of Linux."""

from __future__ import annotations

from pathlib import Path

import pytest

from reactor_runtime.oom_kills import OomKills

V1 = "5:cpu,cpuacct:/jobs/a\n4:memory:/jobs/a\n0::/\n"
V2_EVENTS = "low 0\nhigh 0\nmax 12\noom 1\noom_kill {}\noom_group_kill 0\n"
V1_CONTROL = "oom_kill_disable 0\nunder_oom 0\noom_kill {}\n"


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


@pytest.mark.parametrize(
    ("groups", "file", "text"),
    [
        ("0::/jobs/a\n", "sys/fs/cgroup/jobs/a/memory.events", V2_EVENTS),
        ("0::/\n", "sys/fs/cgroup/memory.events", V2_EVENTS),
        ("0::/kubepods/pod/outside\n", "sys/fs/cgroup/memory.events", V2_EVENTS),
        (V1, "sys/fs/cgroup/memory/jobs/a/memory.oom_control", V1_CONTROL),
        (V1.replace("/jobs/a", "/docker/outside"), "sys/fs/cgroup/memory/memory.oom_control", V1_CONTROL),
        ("0::/jobs:a\n", "sys/fs/cgroup/jobs:a/memory.events", V2_EVENTS),
        (None, "proc/vmstat", "pgmajfault 3\noom_kill {}\nnuma_hit 4\n"),
    ],
    ids=["v2", "v2 in a container", "v2 without a namespace", "v1", "v1 in a container", "a colon", "no cgroup"],
)
def test_the_count_of_the_kernel_tells(tmp_path: Path, groups: str | None, file: str, text: str) -> None:
    if groups is not None:
        write(tmp_path / "proc/self/cgroup", groups)
    write(tmp_path / file, text.format(2))
    kills = OomKills(tmp_path)
    assert kills.happened() is False
    write(tmp_path / file, text.format(3))
    assert kills.happened() is True


def test_the_group_of_the_process_counts_and_not_the_machine(tmp_path: Path) -> None:
    write(tmp_path / "proc/self/cgroup", "0::/jobs/a\n")
    write(tmp_path / "sys/fs/cgroup/jobs/a/memory.events", V2_EVENTS.format(0))
    write(tmp_path / "proc/vmstat", "oom_kill 0\n")
    kills = OomKills(tmp_path)
    write(tmp_path / "proc/vmstat", "oom_kill 1\n")
    assert kills.happened() is False


@pytest.mark.parametrize("text", [None, "low 0\n"], ids=["no file", "an old kernel"])
def test_nothing_is_known_without_the_count(tmp_path: Path, text: str | None) -> None:
    write(tmp_path / "proc/self/cgroup", "0::/\n")
    if text is not None:
        write(tmp_path / "sys/fs/cgroup/memory.events", text)
    assert OomKills(tmp_path).happened() is None


def test_a_group_that_is_removed_meanwhile_tells_nothing(tmp_path: Path) -> None:
    events = tmp_path / "sys/fs/cgroup/memory.events"
    write(tmp_path / "proc/self/cgroup", "0::/\n")
    write(events, V2_EVENTS.format(0))
    kills = OomKills(tmp_path)
    events.unlink()
    assert kills.happened() is None
