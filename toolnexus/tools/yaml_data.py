"""YAML read as JSON, with PyYAML (the extra `skills`), and nothing of YAML that could run, surprise or grow.

PyYAML only parses; the values are made here. So no tag makes an object, `no` and `2024-01-01` stay the texts that they
are, and an alias counts with all that it repeats, so that nine lines cannot become a billion values.

Source: YAML 1.2.2, section 10.3, "Core Schema"; PyYAML's own resolver is that of YAML 1.1.
"""

from __future__ import annotations

import re
from functools import cache
from types import ModuleType
from typing import Any

from ..errors import ConfigurationError

_DEEPEST = 100
_PLAIN = "plain"
_NULL = re.compile(r"null|Null|NULL|~|")
_TRUE, _FALSE = re.compile(r"true|True|TRUE"), re.compile(r"false|False|FALSE")
_INT = re.compile(r"[-+]?[0-9]{1,100}")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]{1,3})?")


class YAMLError(Exception):
    """The text is no YAML, or no YAML of ours; the message says where."""


def read_yaml(text: str, *, max_values: int) -> Any:  # Any: JSON
    """Read one YAML document.

    Args:
        text: The document; its length is the caller's to bound.
        max_values: How many values it may hold, those repeated by aliases counted each time.

    Raises:
        YAMLError: It cannot be read.
        ConfigurationError: PyYAML is not installed.
    """
    yaml = _library()
    try:
        node = yaml.compose(text, Loader=_loader())
    except yaml.YAMLError as error:
        raise YAMLError(" ".join(str(error).split())) from None
    except RecursionError:
        raise YAMLError("nested too deep") from None
    return None if node is None else _Reader(yaml, max_values).value(node, 0)


@cache
def _loader() -> Any:  # Any: PyYAML is imported when first used, and so is the class
    yaml = _library()

    class Loader(yaml.SafeLoader):  # type: ignore[name-defined,misc]  # a module in a variable has no types
        """Leaves plain text to us: its own rules make dates, sexagesimals and booleans of it."""

        def fetch_flow_collection_start(self, kind: Any) -> None:  # Any: PyYAML's own
            if self.flow_level >= _DEEPEST:  # here already: what comes before takes time as the square of the depth
                raise yaml.YAMLError("nested too deep")
            super().fetch_flow_collection_start(kind)

        def resolve(self, kind: Any, value: Any, implicit: Any) -> Any:  # Any: PyYAML's own
            return _PLAIN if kind is yaml.ScalarNode and implicit[0] else super().resolve(kind, value, implicit)

    return Loader


def _library() -> ModuleType:
    try:
        import yaml
    except ImportError:
        raise ConfigurationError(
            "YAML is read with PyYAML, which is not installed: pip install 'toolnexus[skills]'"
        ) from None
    return yaml


class _Reader:
    def __init__(self, yaml: ModuleType, max_values: int) -> None:
        self._yaml = yaml
        self._max_values = max_values
        self._left = max_values

    def value(self, node: Any, depth: int) -> Any:  # Any: a node of PyYAML's, and JSON
        self._left -= 1
        if self._left < 0:
            raise YAMLError(f"more than {self._max_values} values, those repeated by aliases counted each time")
        if depth > _DEEPEST:
            raise _fault(node, "nested too deep, or an alias of what it is in")
        if isinstance(node, self._yaml.ScalarNode):
            return _scalar(node)
        if node.tag not in ("tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"):
            raise _fault(node, f"the tag {node.tag!r} is not read")
        if isinstance(node, self._yaml.SequenceNode):
            return [self.value(item, depth + 1) for item in node.value]
        mapping: dict[str, Any] = {}  # Any: JSON
        for key_node, value_node in node.value:
            key = key_node.value
            if not isinstance(key, str) or (key_node.tag == _PLAIN and key == "<<"):
                raise _fault(key_node, "expected a key that is text (merge keys are not read)")
            if key in mapping:
                raise _fault(key_node, f"the key {key!r} stands there twice")
            mapping[key] = self.value(value_node, depth + 1)
        return mapping


def _scalar(node: Any) -> Any:  # Any: a node of PyYAML's, and JSON
    text: str = node.value
    if node.tag == "tag:yaml.org,2002:str":  # quoted, a block, or `!!str`
        return text
    if node.tag != _PLAIN:
        raise _fault(node, f"the tag {node.tag!r} is not read")
    if _NULL.fullmatch(text):
        return None
    if _TRUE.fullmatch(text) or _FALSE.fullmatch(text):
        return text[0] in "tT"
    if _INT.fullmatch(text):
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text


def _fault(node: Any, what: str) -> YAMLError:  # Any: as above
    return YAMLError(f"line {node.start_mark.line + 1}: {what}")
