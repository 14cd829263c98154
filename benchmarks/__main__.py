"""Take the figures, and write them as a table, a chart and JSON."""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import asdict
from pathlib import Path

from .figures import FIGURES, Bench
from .report import chart, table
from .server import CERTIFICATE, serving
from .timing import Figure


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("figures", nargs="*", help=f"which ones, all if none is named: {', '.join(FIGURES)}")
    parser.add_argument("--rounds", type=int, default=7, help="rounds for each figure (default 7)")
    parser.add_argument("--tiny", action="store_true", help="a little work in one round, to see that it runs")
    parser.add_argument("--peers", action="store_true", help="measure the other libraries that are installed, too")
    parser.add_argument("--out", type=Path, help="a folder for results.md, results.svg and results.json")
    options = parser.parse_args()
    unknown = set(options.figures) - FIGURES.keys()
    if unknown:
        parser.error(f"unknown figures: {', '.join(sorted(unknown))}")
    os.environ["SSL_CERT_FILE"] = str(CERTIFICATE)  # every client trusts the mock server
    figures: list[Figure] = []
    with serving() as address:
        bench = Bench(address, 1 if options.tiny else options.rounds, options.peers, full=not options.tiny)
        for name in options.figures or FIGURES:
            for figure in FIGURES[name](bench):
                figures.append(figure)
                print(table([figure]), flush=True)
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "results.md").write_text(table(figures), encoding="utf-8")
        (options.out / "results.svg").write_text(chart(figures), encoding="utf-8")
        (options.out / "results.json").write_text(json.dumps([asdict(f) for f in figures], indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
