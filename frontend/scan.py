"""Tokens of MLIR and HLO text, just fine enough to find a call and what belongs to it.

Strings, comments and brackets are understood, so that nothing inside a string is taken for code
and every bracket finds its partner; whatever else stands together is a word.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from pallasite.diagnostics import ReadError, SourceLocation

_SPACE = r"(?: \s++ | //[^\n]*+ | /\*.*?\*/ )*+"
_TOKEN = re.compile(
    rf"""
    {_SPACE}
    (?: (?P<word>    (?:[^\s()\[\]{{}}<>,:="/-]|-(?!>)|/(?![/*]))++ )
      | (?P<string>  "(?:[^"\\]++|\\.)*+" )
      | (?P<arrow>   -> )
      | (?P<compare> [<>=]= )
      | (?P<mark>    [()\[\]{{}}<>,:=] )
      | (?P<end>     \Z )
    )
    """,
    re.VERBOSE | re.DOTALL,
)
_BLANK = re.compile(_SPACE, re.VERBOSE | re.DOTALL)
MOST_DIGITS = 18
"""Longer numbers are no sizes of anything, and Python reads none of thousands of digits."""
_CLOSING = {"(": ")", "[": "]", "{": "}", "<": ">"}


class Token:
    """A piece of text; `kind` is string, word, arrow, compare, or the mark itself."""

    __slots__ = ("end", "kind", "start", "text")

    def __init__(self, kind: str, text: str, start: int) -> None:
        self.kind = kind
        self.text = text
        self.start = start
        self.end = start + len(text)


def scan(text: str, name: str) -> Iterator[Token]:
    """The tokens of `text` in order; `ReadError` where there is none in the file `name`."""
    position = 0
    while (match := _TOKEN.match(text, position)) is not None:
        kind = match.lastgroup or "end"
        if kind == "end":
            return
        piece = match[kind]
        position = match.end()
        yield Token(piece if kind == "mark" else kind, piece, position - len(piece))
    blank = _BLANK.match(text, position)
    start = position if blank is None else blank.end()
    what = "a string that ends" if text[start] == '"' else "a token"
    raise ReadError("syntax", f"expected {what}", _location(text, name, start))


def _location(text: str, name: str, offset: int) -> SourceLocation:
    """Line and column of a character of the text."""
    line = text.count("\n", 0, offset) + 1
    return SourceLocation(name, line, offset - text.rfind("\n", 0, offset))


class Tokens:
    """The tokens of a file, with the ways to move among them. Positions count tokens.

    `angles` says whether `<` and `>` are brackets: they are in MLIR, not in HLO.
    """

    def __init__(self, text: str, name: str, *, angles: bool) -> None:
        self.text = text
        self.name = name
        self._closing = {k: v for k, v in _CLOSING.items() if angles or k != "<"}
        self._tokens = list(scan(text, name))

    def __len__(self) -> int:
        return len(self._tokens)

    def find(self, texts: Collection[str]) -> list[int]:
        """The positions of the tokens that are spelled as one of `texts`."""
        wanted = frozenset(texts)
        return [index for index, token in enumerate(self._tokens) if token.text in wanted]

    def kind(self, index: int) -> str:
        """The kind of token `index`, `end` after the last."""
        return self._tokens[index].kind if index < len(self._tokens) else "end"

    def word(self, index: int) -> str:
        """The text of token `index`, empty after the last."""
        return self._tokens[index].text if index < len(self._tokens) else ""

    def expect(self, index: int, kind: str) -> int:
        """Checks that token `index` is a `kind`, and returns the position after it."""
        if self.kind(index) != kind:
            raise self.error(index, f"expected {kind}, got '{self.word(index)[:40]}'")
        return index + 1

    def after(self, index: int) -> int:
        """The position after token `index`, or after the bracket that it opens."""
        closing = self._closing.get(self.kind(index))
        if closing is None:
            return index + 1
        stack = [closing]
        position = index + 1
        while stack:
            kind = self.kind(position)
            if kind == stack[-1]:
                stack.pop()
            elif kind in self._closing:
                stack.append(self._closing[kind])
            elif kind == "end" or kind in self._closing.values():
                raise self.error(index, f"expected '{stack[-1]}' for this bracket")
            position += 1
        return position

    def end_around(self, index: int) -> int:
        """The position that ends the bracket around token `index`: where it closes, or the end."""
        closed = 0
        for position in range(index - 1, -1, -1):
            kind = self.kind(position)
            if kind in self._closing.values():
                closed += 1
            elif kind in self._closing:
                if not closed:
                    return self.after(position) - 1
                closed -= 1
        return len(self)

    def items(self, index: int) -> list[tuple[int, int]]:
        """Start and end of each comma-separated item in the bracket that opens at `index`."""
        end = self.after(index) - 1
        found: list[tuple[int, int]] = []
        start = position = index + 1
        while position < end:
            if self.kind(position) == ",":
                found.append((start, position))
                start = position + 1
            position = self.after(position)
        if start < end:
            found.append((start, end))
        return found

    def slice(self, start: int, end: int) -> str:
        """The text of tokens `start` to `end`; the file may end before."""
        pieces = self._tokens[start:end]
        return self.text[pieces[0].start : pieces[-1].end] if pieces else ""

    def number(self, index: int, text: str | None = None) -> int:
        """The whole number that token `index` is, or that stands there as `text`."""
        text = self.word(index) if text is None else text
        if not text.isdecimal() or len(text) > MOST_DIGITS:
            raise self.error(index, f"expected a number, got '{text[:40]}'")
        return int(text)

    def location(self, index: int) -> SourceLocation:
        """Line and column of token `index`."""
        end = index >= len(self._tokens)
        offset = len(self.text) if end else self._tokens[index].start
        return _location(self.text, self.name, offset)

    def error(self, index: int, message: str, code: str = "syntax") -> ReadError:
        """A diagnostic at token `index`."""
        return ReadError(code, message, self.location(index))


_ESCAPE = re.compile(r"\\([0-9A-Fa-f]{2}|.)", re.DOTALL)
_NAMED = {"n": b"\n", "t": b"\t", "r": b"\r"}


def unescape(literal: str) -> str:
    """What an MLIR string literal means: `\\22` is a byte in hexadecimal."""

    def replace(match: re.Match[str]) -> str:
        code = match[1]
        raw = bytes.fromhex(code) if len(code) == 2 else _NAMED.get(code, code.encode())
        return raw.decode("latin-1")

    # Escaped bytes may be parts of UTF-8 sequences, so everything goes through bytes.
    encoded = literal[1:-1].encode().decode("latin-1")
    return _ESCAPE.sub(replace, encoded).encode("latin-1").decode(errors="replace")


_C_ESCAPE = re.compile(r"\\([0-7]{1,3}|x[0-9A-Fa-f]{2}|.)", re.DOTALL)


def unescape_c(literal: str) -> str:
    """What an HLO string literal means: escapes as in C."""

    def replace(match: re.Match[str]) -> str:
        code = match[1]
        if code[0] in "01234567":
            return chr(int(code, 8) & 0xFF)
        if code[0] == "x" and len(code) == 3:
            return chr(int(code[1:], 16))
        return _NAMED.get(code, code.encode()).decode("latin-1")

    encoded = literal[1:-1].encode().decode("latin-1")
    return _C_ESCAPE.sub(replace, encoded).encode("latin-1").decode(errors="replace")
