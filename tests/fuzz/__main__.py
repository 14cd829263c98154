"""Fuzz one target with a fuzzer that is guided by coverage: `python -m tests.fuzz TARGET [option of libFuzzer ...]`.

For example `python -m tests.fuzz "whole runs" -runs=100000`. It needs `atheris`, which is not on every platform.
"""

from __future__ import annotations

import sys

import atheris  # type: ignore[import-not-found,import-untyped,unused-ignore]  # where it is there

with atheris.instrument_imports(include=["toolnexus"]):
    from tests.fuzz.targets import TARGETS


def main() -> None:
    name, *options = sys.argv[1:]
    target, size = TARGETS[name]
    atheris.Setup([sys.argv[0], f"-max_len={size}", *options], target)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
