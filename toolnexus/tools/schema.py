"""Type hints to a JSON Schema and a validator, through one pydantic model for each tool.

Arguments are read as JSON. Where JSON has a type of its own, the value must have it, with these conversions, none
of which loses anything: `"5"` and `5.0` for an `int`, `"2.5"` for a `float`, `"true"`, `"yes"`, `1` and the like for
a `bool`. A `bool` is never taken for a number, a number never for a `str`, JSON text never for an object, one value
never for a list. What JSON has no type for (dates, `UUID`, `Decimal`, `Path`, enums, sets, tuples) is read from
the form pydantic writes it in. The rules of your own pydantic models hold inside them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from inspect import Parameter
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaWarningKind
from pydantic_core import ErrorDetails, to_json

from ..errors import ConfigurationError
from ..tool import ToolContext
from .json_schema import is_array, is_object
from .misfits import as_json, clip, place, refusal
from .signature import Signature


class HintedArguments:
    """The arguments of a function as its hints describe them."""

    schema: dict[str, Any]  # Any: JSON
    """JSON Schema of the arguments, without pydantic's titles."""

    def __init__(self, signature: Signature, texts: Mapping[str, str]) -> None:
        """Build the schema and the validator.

        Args:
            signature: The function's parameters.
            texts: Descriptions of parameters; one in the hint itself comes first.

        Raises:
            ConfigurationError: No schema can be made of a hint; the message names the parameter.
        """
        self._signature = signature
        try:
            self._model = _model(signature.parameters.values(), texts)
            self.schema = _tidy(self._model.model_json_schema(schema_generator=_Schema))
        except Exception as error:  # hints bring code of their own, which can raise anything
            culprits = [repr(name) for name, parameter in signature.parameters.items() if _fails(parameter)]
            reason = clip(str(error).partition("\n")[0])
            raise ConfigurationError(
                f"parameter {' and '.join(culprits)}: cannot make a JSON Schema of the hint: {reason}"
            ) from error

    def bind(self, args: dict[str, Any], ctx: ToolContext) -> Callable[[], object]:  # Any: JSON
        """Check `args` and return the call; nothing the function gets is shared with `args`."""
        data = to_json(args)
        try:
            given = self._model.model_validate_json(data)
        except ValidationError as error:
            raise refusal(_problems(error)) from None
        if problems := [*self._flags_for_numbers(data), *self._taken(given)]:
            raise refusal(problems)
        values: dict[str, object] = {}
        for name, parameter in self._signature.parameters.items():
            if parameter.kind is Parameter.VAR_KEYWORD:
                values[name] = given.model_extra
            elif parameter.kind is Parameter.VAR_POSITIONAL:
                values[name] = tuple(given.__dict__[_FIELD + name])
            # A plain default is left to the function itself, which may compare it by identity.
            elif _FIELD + name in given.model_fields_set or _default_is_pydantics(parameter):
                values[name] = given.__dict__[_FIELD + name]
        return self._signature.call(values, ctx)

    def _flags_for_numbers(self, data: bytes) -> list[str]:
        # Pydantic takes true for 1 unless it is strict, and strict refuses "5" too: so ask both.
        if b"true" in data or b"false" in data:
            try:
                self._model.model_validate_json(data, strict=True)
            except ValidationError as error:
                return _problems(
                    error,
                    lambda detail: detail["type"] in ("int_type", "float_type") and isinstance(detail["input"], bool),
                )
        return []

    def _taken(self, given: BaseModel) -> list[str]:
        """Names that `**kwargs` would let through, and that would collide with the function's own."""
        return [
            f"{place([name])}: unknown argument" for name in given.model_extra or () if name in self._signature.reserved
        ]


# Fields have names of their own, the parameters' are aliases: one may be called `_x`, `schema` or `model_config`.
_FIELD = "field_"


class _Schema(GenerateJsonSchema):
    def emit_warning(self, kind: JsonSchemaWarningKind, detail: str) -> None:
        """Say nothing: a default that JSON cannot say is left out of the schema; the function has it all the same."""


class _Closed(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class _Open(_Closed):
    model_config = ConfigDict(extra="allow")


def _model(parameters: Iterable[Parameter], texts: Mapping[str, str]) -> type[BaseModel]:
    base: type[BaseModel] = _Closed
    fields: dict[str, Any] = {}  # Any: what `create_model` takes
    for parameter in parameters:
        hint: Any = Any if parameter.annotation is parameter.empty else parameter.annotation
        if parameter.kind is Parameter.VAR_KEYWORD:
            base = _Open
            fields["__pydantic_extra__"] = dict[str, hint]
        else:
            fields[_FIELD + parameter.name] = _field(parameter, hint, texts.get(parameter.name))
    return create_model("Arguments", __base__=base, **fields)


def _field(parameter: Parameter, hint: Any, text: str | None) -> tuple[Any, Any]:  # Any: a hint can be any object
    default = Field() if parameter.default is parameter.empty else parameter.default
    if parameter.kind is Parameter.VAR_POSITIONAL:
        hint, default = list[hint], Field(default_factory=list)
    own = FieldInfo.from_annotated_attribute(hint, default)
    description = own.description or next((note for note in own.metadata if isinstance(note, str)), text)
    return Annotated[hint, Field(alias=own.alias or parameter.name, description=description)], default


def _default_is_pydantics(parameter: Parameter) -> bool:
    return parameter.default is parameter.empty or isinstance(parameter.default, FieldInfo)


def _fails(parameter: Parameter) -> bool:
    try:
        _model([parameter], {}).model_json_schema(schema_generator=_Schema)
    except Exception:
        return True
    return False


def _problems(error: ValidationError, wanted: Callable[[ErrorDetails], bool] = lambda detail: True) -> list[str]:
    return [_problem(detail) for detail in error.errors(include_url=False, include_context=False) if wanted(detail)]


def _problem(detail: ErrorDetails) -> str:
    match detail["type"]:
        case "missing":
            what = "required, but missing"
        case "extra_forbidden":
            what = "unknown argument"
        case "json_invalid":  # a number of more digits than Python reads, lists too deep
            what = detail["msg"]
        case _:
            what = clip(f"{detail['msg']} (got {as_json(detail['input'])})")
    return f"{place(detail['loc'])}: {what}"


_NAMED_SCHEMAS = ("properties", "patternProperties", "$defs")
_DATA = ("default", "const", "enum", "examples")


def _tidy(schema: dict[str, Any]) -> dict[str, Any]:  # Any: JSON
    """Drop pydantic's titles and the keywords beside a `$ref`, which some providers refuse or forget.

    A `$ref` with neighbours (a description, a default) is replaced by what it refers to.
    """
    definitions = schema.pop("$defs", {})
    used: list[str] = []

    def tidy(node: Any, inside: frozenset[str] = frozenset()) -> Any:  # Any: JSON
        if is_array(node):
            return [tidy(item, inside) for item in node]
        if not is_object(node):
            return node
        name = str(node.get("$ref")).removeprefix("#/$defs/")
        if name in definitions:
            if len(node) > 1 and name not in inside:
                beside = {key: value for key, value in node.items() if key != "$ref"}
                return tidy({**definitions[name], **beside}, inside | {name})
            used.append(name)
            return {"$ref": node["$ref"]}
        return {key: tidy_keyword(key, value, inside) for key, value in node.items() if key != "title"}

    def tidy_keyword(key: str, value: Any, inside: frozenset[str]) -> Any:  # Any: JSON
        if key in _DATA:
            return value
        return (
            {name: tidy(child, inside) for name, child in value.items()}
            if key in _NAMED_SCHEMAS
            else tidy(value, inside)
        )

    root = tidy(schema)
    tidied = {key: root[key] for key in ("type", "properties", "required", "additionalProperties") if key in root}
    kept: dict[str, Any] = {}  # Any: JSON
    for name in used:  # grows while definitions refer to further ones
        if name not in kept:
            kept[name] = tidy(definitions[name], frozenset({name}))
    return {**tidied, "$defs": kept} if kept else tidied
