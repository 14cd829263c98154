from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolnexus.tools.docstrings import parse_docstring

GOOGLE = """Book a room.

    For one night only.

    Args:
        city (str): Where.
        nights (Callable[[int], str], optional): How many: one
            or more.

            Never none.
        *rest: The rest.
        **more: And more.
        \\*escaped: Escaped.
        ghost:

    Returns:
        city: not a parameter.
    """

NUMPY = """Book a room.

    Parameters
    ----------
    city : str
        Where.
    nights, beds : int, optional
        How many:
        one or more.
    plain
        No type.

    Returns
    -------
    str
        Not a parameter.
    """

SPHINX = """Book a room.

    :param city: Where.
    :type city: str
        not a text
    :param int nights: How many:
        one or more.
    :keyword list[str] | None tags: Tags.
    :returns: Not a parameter.
    """


@pytest.mark.case("schema-docstring-formats")
def test_google_sections_are_read() -> None:
    doc = parse_docstring(GOOGLE)
    assert doc.summary == "Book a room.\n\nFor one night only."
    assert doc.parameters == {
        "city": "Where.",
        "nights": "How many: one or more. Never none.",
        "rest": "The rest.",
        "more": "And more.",
        "escaped": "Escaped.",
    }


@pytest.mark.parametrize("header", ["Args", "Arguments", "Params", "Parameters", "Keyword Args"])
def test_google_headers_have_several_names(header: str) -> None:
    assert parse_docstring(f"X.\n\n{header}:\n    a: A.").parameters == {"a": "A."}


def test_tabs_count_as_indentation() -> None:
    assert parse_docstring("X.\n\n\tArgs:\n\t\ta: A\n\t\t\tgoes on.\n").parameters == {"a": "A goes on."}


def test_a_sloppy_continuation_at_the_margin_belongs_to_the_entry_before_it() -> None:
    assert parse_docstring("X.\n\nArgs:\n    a: A\n    goes on. And http://x\n    b: B").parameters == {
        "a": "A goes on. And http://x",
        "b": "B",
    }


def test_text_before_the_first_entry_is_skipped() -> None:
    assert parse_docstring("X.\n\nArgs:\n    Nothing much\n    a: A").parameters == {"a": "A"}


@pytest.mark.case("schema-docstring-formats")
def test_numpy_sections_are_read() -> None:
    doc = parse_docstring(NUMPY)
    assert doc.summary == "Book a room."
    assert doc.parameters == {
        "city": "Where.",
        "nights": "How many: one or more.",
        "beds": "How many: one or more.",
        "plain": "No type.",
    }


def test_numpy_sections_may_end_the_docstring() -> None:
    assert parse_docstring("X.\n\nOther Parameters\n---\na\n  A.").parameters == {"a": "A."}


@pytest.mark.case("schema-docstring-formats")
def test_sphinx_fields_are_read() -> None:
    doc = parse_docstring(SPHINX)
    assert doc.summary == "Book a room."
    assert doc.parameters == {"city": "Where.", "nights": "How many: one or more.", "tags": "Tags."}


def test_a_type_field_begins_the_parameters_too() -> None:
    assert parse_docstring("X.\n\n:type a: int\n:param a: A.") == ("X.", {"a": "A."})


@pytest.mark.parametrize("text", [None, "", "  \n "])
def test_no_docstring_is_an_empty_description(text: str | None) -> None:
    assert parse_docstring(text) == ("", {})


@pytest.mark.parametrize(
    "text", ["X.\n\nReturns:\n    a: b", "X.\n\nArgs:\na: b", "X.\n\nArgs:", "X.\n\nParameters\n=="]
)
def test_without_a_parameter_section_all_is_description(text: str) -> None:
    assert parse_docstring(text) == (text, {})


@given(
    st.lists(
        st.sampled_from(["Args:", "    ", "\t", "a", ":param", " x:", "---", "Parameters", "\n", ":", "(", "*", "\\"])
    )
)
def test_a_broken_docstring_never_raises(pieces: list[str]) -> None:
    doc = parse_docstring("".join(pieces))
    assert all(text.strip() for text in doc.parameters.values())
