"""The alerts of the documentation fire on a cluster: evaluated on what a front with simulated workers exports."""

from __future__ import annotations

import operator
import re
from collections.abc import Awaitable, Callable, Mapping

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from reactor_runtime.cluster.front.scaling import Scaling
from reactor_runtime.server.routes.prometheus import write
from reactor_runtime.server.routes.report import ServerReport
from tests.cluster.simulation import Assignment, Simulation
from tests.docs.snippets import one

Samples = Mapping[tuple[str, frozenset[tuple[str, str]]], float]
EXPRESSION = re.compile(
    r"(?:sum by \((?P<by>[\w, ]+)\) \()?(?P<increase>increase\()?(?P<name>\w+)(?:\{(?P<matchers>[^}]*)\})?"
    r"(?:\[\w+\]\))?\)? (?P<comparison>==|>=|>) (?P<limit>\d+)"
)
MATCHER = re.compile(r'(\w+)(=~|=)"([^"]*)"')
COMPARISONS = {"==": operator.eq, ">=": operator.ge, ">": operator.gt}
(GROUP,) = yaml.safe_load(one("metrics.md", "reactor.rules.yml").text)["groups"]
RULES = {rule["alert"]: rule["expr"] for rule in GROUP["rules"]}


class Cluster:
    """A front with three workers, each with a session, and what Prometheus reads from it."""

    def __init__(self) -> None:
        self.assigned: list[Assignment] = []
        self.simulation = Simulation(
            nodes=1, slots=3, scaling=Scaling(least=3, most=3), load_s=1.0, on_assigned=self.assigned.append
        )

    async def begin(self) -> None:
        await self.wait(5.0)
        for name in ("a", "b", "c"):
            self.simulation.arrive(name)
        for assignment in self.assigned:
            assert self.simulation.workers[assignment.worker].begin(assignment.ticket.text)
            self.simulation.leave(assignment.client)
        await self.wait(1.0)

    async def wait(self, seconds: float) -> None:
        await self.simulation.run_until(self.simulation.clock.now() + seconds)

    def scrape(self) -> Samples:
        text, _ = write(ServerReport.of(self.simulation.fleet.admission), "text/plain")
        target = {("job", "reactor-front"), ("instance", "front:8080")}
        return {
            (sample.name, frozenset({*sample.labels.items(), *target})): sample.value
            for family in text_string_to_metric_families(text.decode())
            for sample in family.samples
        }


async def lose_workers(cluster: Cluster) -> None:
    for worker in list(cluster.simulation.workers):
        cluster.simulation.kill_worker(worker)
        await cluster.wait(1.0)


async def crash_engines(cluster: Cluster) -> None:
    for worker in cluster.simulation.workers.values():
        worker.is_ready = False
        worker.report()
    await cluster.wait(1.0)


async def fail_sessions(cluster: Cluster) -> None:
    for worker in cluster.simulation.workers.values():
        worker.end(reason="model_error")
    await cluster.wait(1.0)


async def fill_queue(cluster: Cluster) -> None:
    for number in range(9):
        cluster.simulation.arrive(f"waiting-{number}")
    await cluster.wait(1.0)


SCENARIOS = [
    ("ReactorModelNotReady", crash_engines),
    ("ReactorModelCrashes", crash_engines),
    ("ReactorWorkersAreLost", lose_workers),
    ("ReactorSessionsFail", lose_workers),
    ("ReactorSessionsFail", fail_sessions),
    ("ReactorQueueIsLong", fill_queue),
]


@pytest.mark.parametrize(("alert", "happens"), SCENARIOS)
async def test_an_alert_fires_on_a_cluster_when_its_condition_is_true_and_not_before(
    alert: str, happens: Callable[[Cluster], Awaitable[None]]
) -> None:
    cluster = Cluster()
    await cluster.begin()
    before = cluster.scrape()
    assert not fires(RULES[alert], before, before)
    await happens(cluster)
    assert fires(RULES[alert], before, cluster.scrape())
    await cluster.simulation.end()


def test_each_alert_is_tested() -> None:
    assert {alert for alert, _ in SCENARIOS} == RULES.keys()


def fires(expression: str, before: Samples, after: Samples) -> bool:
    """Evaluate an expression of PromQL, of the forms that the alerts have, between two scrapes."""
    parsed = EXPRESSION.fullmatch(expression)
    assert parsed is not None, f"{expression} has another form"
    values: dict[tuple[str, ...], float] = {}
    for (name, labels), value in after.items():
        if name != parsed["name"] or not matches(parsed["matchers"] or "", dict(labels)):
            continue
        if parsed["increase"]:
            # A counter that appears has not increased, and one that falls was reset.
            former = before.get((name, labels), value)
            value = value - former if value >= former else value
        by = (parsed["by"] or "").split(", ")
        group = tuple(dict(labels).get(label, "") for label in by) if parsed["by"] else tuple(sorted(map(str, labels)))
        values[group] = values.get(group, 0.0) + value
    assert values, f"{expression} names nothing that a front exports"
    return any(COMPARISONS[parsed["comparison"]](value, float(parsed["limit"])) for value in values.values())


def matches(matchers: str, labels: Mapping[str, str]) -> bool:
    for label, kind, wanted in MATCHER.findall(matchers):
        value = labels.get(label, "")
        if not (re.fullmatch(wanted, value) if kind == "=~" else value == wanted):
            return False
    return True
