"""How a figure is taken: in rounds, all subjects in each, so that what disturbs the machine disturbs them alike."""

from __future__ import annotations

import contextlib
import gc
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import median

from .scenarios import Scenario
from .subjects import Job, Place, Subject

MICROSECONDS = 1e6


@dataclass
class Figure:
    """What was measured: one value per subject and round."""

    title: str
    unit: str
    values: dict[str, list[float]]
    baseline: str | None = None
    """The subject that the others are held against, usually the floor."""
    notes: list[str] = field(default_factory=list)

    def median(self, subject: str) -> float:
        return median(self.values[subject])

    def ratio(self, subject: str, to: str | None = None) -> float | None:
        """The median of the rounds' ratios to another subject, the baseline by default; `None` where there is none.

        Values of one round belong together.
        """
        to = to or self.baseline
        if to is None or subject not in self.values:
            return None
        return median(value / base for value, base in zip(self.values[subject], self.values[to], strict=True))


def cpu_time(job: Job, scenario: Scenario, *, in_a_row: int = 1) -> float:
    """CPU seconds of this process for one run, all threads counted; with several in a row, their mean."""
    gc.collect()  # else whoever comes next pays for the garbage of whoever came before
    start = time.process_time()
    seen = min(job() for _ in range(in_a_row))
    used = time.process_time() - start
    wanted = scenario.turns if scenario.has_tools else scenario.size
    if seen < wanted:
        raise RuntimeError(f"{scenario.name}: {seen} of {wanted} were seen")
    return used / in_a_row


def compare(
    title: str,
    unit: str,
    subjects: Mapping[str, tuple[Subject, Place]],
    rounds: int,
    *,
    baseline: str | None = "floor",
    measure: Callable[[Job, Scenario], float] = cpu_time,
) -> Figure:
    """Run every subject in every round, each round in another order; the first runs are not counted.

    Returns:
        Microseconds for each unit of the subject's scenario.
    """
    figure = Figure(title, unit, {name: [] for name in subjects}, baseline)
    with contextlib.ExitStack() as stack:
        jobs = [(name, stack.enter_context(subject(place)), place) for name, (subject, place) in subjects.items()]
        for round in range(-1, rounds):
            turned = round % len(jobs)
            for name, job, place in jobs[turned:] + jobs[:turned]:
                value = measure(job, place.scenario) / place.scenario.units * MICROSECONDS
                if round >= 0:
                    figure.values[name].append(value)
    return figure
