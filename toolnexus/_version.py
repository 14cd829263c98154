"""The version. `pyproject.toml` takes it from here: to look it up in the installed package takes longer to import."""

VERSION = "0.1.0"
