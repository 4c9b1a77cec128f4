"""MLIR's tokens, the frequent ones recognised by one regular expression.

Upstream's lexer inspects character by character; names and punctuation are nine tokens in ten.
Whatever the expression does not know goes to upstream's lexer, so that the language is the same.
"""

from __future__ import annotations

import re

from xdsl.utils.lexer import Span, Token
from xdsl.utils.mlir_lexer import KIND_BY_PUNCTUATION_SPELLING, MLIRLexer, MLIRToken, MLIRTokenKind

# The blanks match possessively: else what follows a comment could be sought in its text.
_TOKEN = re.compile(
    r"(?:\s++|//[^\n]*+)*+"
    r"(?:(?P<BARE_IDENT>[A-Za-z_][\w$.]*)"
    r"|(?P<PERCENT_IDENT>%(?:[0-9]+|[A-Za-z$._-][\w$.-]*))"
    r"|(?P<HASH_IDENT>#(?:[0-9]+|[A-Za-z$._][\w$.-]*))"
    r"|(?P<PUNCTUATION>[,:()\[\]<>=?+*}]|\{(?!-#)))",
    re.ASCII,
)

_NAMES = {
    "BARE_IDENT": MLIRTokenKind.BARE_IDENT,
    "PERCENT_IDENT": MLIRTokenKind.PERCENT_IDENT,
    "HASH_IDENT": MLIRTokenKind.HASH_IDENT,
}
_PUNCTUATION = {c: KIND_BY_PUNCTUATION_SPELLING[c] for c in ",:()[]<>=?+*{}"}


class TextLexer(MLIRLexer):
    """Upstream's lexer with a fast path."""

    # Possessive, for upstream's own expression takes forever over a string that never ends.
    _unescaped_characters_regex = re.compile(r'"(?:[^"\\\n\v\f]++|\\(?:["nt\\]|[0-9A-Fa-f]{2}))*+"')

    def lex(self) -> MLIRToken:
        """The next token."""
        match = _TOKEN.match(self.input.content, self.pos)
        if match is None:
            return super().lex()
        group = match.lastgroup or ""
        kind = _NAMES.get(group) or _PUNCTUATION[match[group]]
        self.pos = match.end()
        return Token(kind, Span(match.start(group), match.end(), self.input))
