"""A file as text, and back to the very bytes it was made of."""

from __future__ import annotations

from dataclasses import dataclass, replace

from .refusal import RefusedError

_BOM = "\ufeff"


@dataclass(frozen=True, slots=True)
class Text:
    """The text of a file with `\\n` for its newlines, as a model writes them."""

    text: str
    newline: str = "\n"
    """What a newline is in the file; `\\r\\n` only where every one is, else a `\\r` stays in the text."""
    bom: str = ""

    @classmethod
    def decode(cls, data: bytes, path: str) -> Text:
        """Read UTF-8.

        Raises:
            RefusedError: It is something else.
        """
        try:
            text = data.decode()
        except UnicodeDecodeError:
            text = "\0"
        if "\0" in text:
            raise RefusedError(f"{path!r} is no text in UTF-8")
        bom = _BOM if text.startswith(_BOM) else ""
        text = text.removeprefix(_BOM)
        if text.count("\r\n") == text.count("\n") > 0:
            without = text.replace("\r\n", "\n")
            if "\r" not in without:
                return cls(without, "\r\n", bom)
        return cls(text, "\n", bom)

    def encode(self, path: str, limit: int) -> bytes:
        """Write it as it was read.

        Raises:
            RefusedError: It is larger than `limit` bytes.
        """
        text = self.text if self.newline == "\n" else self.text.replace("\n", self.newline)
        data = (self.bom + text).encode()
        if len(data) > limit:
            raise RefusedError(f"{path!r} would be {len(data)} bytes; at most {limit} are written")
        return data

    def of(self, text: str) -> Text:
        """Another text in the same form."""
        return replace(self, text=text)

    def unified(self, text: str) -> str:
        """What a model quotes from the file, with the newlines that `text` has here."""
        return text.replace("\r\n", "\n") if self.newline == "\r\n" else text
