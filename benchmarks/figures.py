"""The figures, each a function of where the server is and how much work to do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from statistics import quantiles

from . import child, latency
from .peers import is_installed, peers
from .scenarios import Scenario, Style
from .server import Address
from .subjects import (
    Place,
    Subject,
    floor,
    floor_async,
    floor_many,
    toolnexus,
    toolnexus_async,
    toolnexus_async_over_httpx,
    toolnexus_many,
    toolnexus_observed,
    toolnexus_on_disk,
    toolnexus_over_httpx,
)
from .timing import MICROSECONDS, Figure, compare, cpu_time

STYLES: tuple[Style, ...] = ("openai", "anthropic")


@dataclass(frozen=True)
class Bench:
    """Where and how much."""

    address: Address
    rounds: int
    with_peers: bool
    full: bool

    def size(self, full: int, tiny: int) -> int:
        return full if self.full else tiny

    def place(self, name: str, style: Style, *, tls: bool = False) -> Place:
        scenario = Scenario.parse(name)
        return Place(self.address.root(scenario, tls=tls), scenario, style)

    def compare(
        self,
        title: str,
        unit: str,
        place: Place,
        subjects: dict[str, Subject],
        *,
        is_async: bool | None,
        in_a_row: int = 1,
    ) -> Figure:
        """`subjects`, and the peers that can do the same."""
        if self.with_peers and is_async is not None:
            subjects |= peers(place.style, tools=place.scenario.has_tools, is_async=is_async)
        title = f"{title}, {place.style}" + (", async" if is_async else "")
        places = {name: (subject, place) for name, subject in subjects.items()}
        return compare(title, unit, places, self.rounds, measure=partial(cpu_time, in_a_row=in_a_row))


SYNC: dict[str, Subject] = {"floor": floor, "toolnexus": toolnexus}
ASYNC: dict[str, Subject] = {"floor": floor_async, "toolnexus": toolnexus_async}


def text(bench: Bench) -> Iterator[Figure]:
    """An HTTP chunk for each event, and 16 KiB of events in each."""
    for kind in ("text", "coal"):
        for style in STYLES:
            place = bench.place(f"{kind}-{bench.size(5000, 20)}", style)
            over = {"toolnexus over httpx": toolnexus_over_httpx}
            yield bench.compare(f"{kind}: CPU per text chunk", "µs", place, {**SYNC, **over}, is_async=False)
            over = {"toolnexus over httpx": toolnexus_async_over_httpx}
            yield bench.compare(f"{kind}: CPU per text chunk", "µs", place, {**ASYNC, **over}, is_async=True)


def drip(bench: Bench) -> Iterator[Figure]:
    """Each event on its own."""
    place = bench.place(f"drip-{bench.size(200, 5)}", "openai")
    yield bench.compare("drip: CPU per event", "µs", place, dict(SYNC), is_async=False)
    yield bench.compare("drip: CPU per event", "µs", place, dict(ASYNC), is_async=True)


def tools(bench: Bench) -> Iterator[Figure]:
    """A tool call in each turn, and many in one."""
    for style in STYLES:
        place = bench.place(f"tools-{bench.size(20, 2)}", style)
        yield bench.compare("tools: CPU per turn", "µs", place, dict(SYNC), is_async=False)
        yield bench.compare("tools: CPU per turn", "µs", place, dict(ASYNC), is_async=True)
    place = bench.place(f"par-{bench.size(20, 2)}", "openai")
    for title, in_a_row in (("one alone, in cold caches", 1), ("ten in a row", 10)):
        title = f"par: CPU per run with 20 parallel calls, {title}"
        yield bench.compare(title, "µs", place, dict(SYNC), is_async=False, in_a_row=in_a_row)
        yield bench.compare(title, "µs", place, dict(ASYNC), is_async=True, in_a_row=in_a_row)


def growth(bench: Bench) -> Iterator[Figure]:
    """Late turns of a conversation against early ones, by subtraction of whole runs."""
    subjects: dict[str, Subject] = {"floor": floor, "toolnexus": toolnexus}
    if bench.with_peers:
        subjects |= peers("openai", tools=True, is_async=False)
    sizes = (0, 5, 25, 45) if bench.full else (0, 1, 2, 3)
    runs = compare(
        "",
        "",
        {
            f"{name} {size}": (subject, bench.place(f"tools-{size}", "openai"))
            for name, subject in subjects.items()
            for size in sizes
        },
        bench.size(3 * bench.rounds, 1),
        baseline=None,
    )
    figure = Figure("turns 26 to 45 of a conversation against turns 1 to 5", "×", {})
    for name in subjects:
        # Medians first: a difference of two single runs is mostly noise.
        a, b, c, d = (runs.median(f"{name} {size}") * (size + 1) for size in sizes)
        figure.values[name] = [(d - c) / (sizes[3] - sizes[2]) / (b - a) * sizes[1]]
    yield figure


def tls(bench: Bench) -> Iterator[Figure]:
    """The same turns on a warm connection, encrypted and not."""
    name = f"tools-{bench.size(20, 2)}"
    plain, encrypted = bench.place(name, "openai"), bench.place(name, "openai", tls=True)
    for title, subject in (("sync", toolnexus), ("async", toolnexus_async), ("floor", floor)):
        subjects = {"plain": (subject, plain), "TLS": (subject, encrypted)}
        yield compare(f"a turn over TLS, {title}", "µs", subjects, bench.rounds, baseline="plain")


def big_args(bench: Bench) -> Iterator[Figure]:
    """Arguments of one call in deltas of 4 characters."""
    for kilobytes in (bench.size(50, 1), bench.size(200, 2)):
        place = bench.place(f"args-{kilobytes}", "openai")
        yield bench.compare(f"args, {kilobytes} kB: CPU per delta", "µs", place, dict(SYNC), is_async=False)


def many(bench: Bench) -> Iterator[Figure]:
    """Many streams at once, as fast as they go."""
    streams, place = bench.size(200, 3), bench.place(f"text-{bench.size(500, 5)}", "openai")
    subjects: dict[str, Subject] = {"floor": floor_many(streams), "toolnexus": toolnexus_many(streams)}
    if bench.with_peers and is_installed("openai"):
        from .peers import openai_many

        subjects["openai-python"] = openai_many(streams)
    title = f"{streams} streams of {place.scenario.size} chunks at once: CPU per chunk of each stream"
    yield bench.compare(title, "µs", place, subjects, is_async=None)


def paced(bench: Bench) -> Iterator[Figure]:
    """Many streams with an event each 50 ms: how late the latest in a hundred is read."""
    place = bench.place(f"paced-{bench.size(60, 3)}", "openai")
    for streams in (bench.size(200, 2), bench.size(1000, 3)):
        figure = Figure(f"{streams} streams with an event each 50 ms: p99 of the delay", "ms", {}, "floor")
        for name, subject in (("floor", latency.paced_floor), ("toolnexus", latency.paced)):
            with subject(place) as late:
                delays = [late(streams) for _ in range(bench.size(3, 1))]
            figure.values[name] = [quantiles(delay, n=100)[98] * 1e3 for delay in delays]
        yield figure


def first_event(bench: Bench) -> Iterator[Figure]:
    """Clock time from the call to the first event, on a warm client."""
    place = bench.place("text-1", "openai")
    subjects = {"floor": (latency.first_event_floor, place), "toolnexus": (latency.first_event, place)}
    yield compare(
        "first event of a warm client",
        "ms",
        subjects,
        bench.size(200, 2),
        measure=lambda job, scenario: job() / 1e3 / MICROSECONDS,
    )


def process(bench: Bench) -> Iterator[Figure]:
    """Whole processes."""
    names = ["toolnexus", *(["openai-python"] if bench.with_peers and is_installed("openai") else [])]
    url = bench.place("text-1", "openai").base_url
    short, long = (bench.place(f"text-{bench.size(size, 10)}", "openai").base_url for size in (1_000, 200_000))
    imports = Figure("import, CPU", "ms", {name: [] for name in ("httpx", *names)}, names[-1])
    starts = Figure("process start to first event, CPU", "ms", {name: [] for name in ("floor", *names)}, names[-1])
    memory = Figure("memory that 200,000 chunks take more than 1,000", "MB", {name: [] for name in ("floor", *names)})
    for name in starts.values:
        child.time_to_first_event(name, url)  # not counted: the first one may have to compile modules
    for _ in range(bench.rounds):
        for name in imports.values:
            imports.values[name].append(child.import_time(name.removesuffix("-python")))
        for name in starts.values:
            starts.values[name].append(child.time_to_first_event(name, url))
    for name in memory.values:
        memory.values[name].append(child.memory_growth(name, short, long))
    yield from (imports, starts, memory)


def observed(bench: Bench) -> Iterator[Figure]:
    """Hooks, a chunk observer and a store, over the plain run."""
    for name, unit in ((f"text-{bench.size(5000, 20)}", "chunk"), (f"tools-{bench.size(20, 2)}", "turn")):
        place = bench.place(name, "openai")
        subjects = {
            "plain": (toolnexus, place),
            "observed and kept": (toolnexus_observed, place),
            "observed and kept in SQLite": (toolnexus_on_disk, place),
        }
        yield compare(f"hooks, observers and a store: CPU per {unit}", "µs", subjects, bench.rounds, baseline="plain")


FIGURES: dict[str, Callable[[Bench], Iterator[Figure]]] = {
    function.__name__: function
    for function in (text, drip, tools, growth, tls, big_args, many, paced, first_event, process, observed)
}
