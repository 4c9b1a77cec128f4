"""MLIR text in, module of registered operations out; errors become diagnostics with a location."""

from __future__ import annotations

import struct
import sys

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import ParseError, VerifyException

from pallasite.diagnostics import Diagnostic, ReadError, SourceLocation, VerifyError
from pallasite.dialects import make_context
from pallasite.dialects.locations import source_location
from pallasite.frontend.text_parser import TextParser

__all__ = ["read_text"]

_CLEARER = {
    "could not parse entire input": "expected an operation",
    "operation is not registered": "expected the name of an operation, got an empty one",
    "in block definition": "expected an operation, or '}' at the end of the region",
    "expected suffix identifier after {first_char}": "expected a name or number behind the sign",
}
"""What xDSL says, as its parser calls it, and what is meant."""


def read_text(
    text: str,
    name: str = "<input>",
    context: Context | None = None,
    *,
    implicit_module: bool = True,
) -> ModuleOp:
    """The module that `text` spells, with its source locations.

    Operations outside a module are put into one, unless `implicit_module` is false.

    Raises `ReadError` for text that is not MLIR or holds unknown operations, `VerifyError` where
    types or attributes break a rule while they are built. The module is not verified otherwise.
    """
    try:
        parser = TextParser(context or make_context(), text.removeprefix("\ufeff"), name)
    except ParseError as error:
        raise _syntax_error(error) from error
    try:
        module = parser.parse_module(implicit_module)
    except ParseError as error:
        raise _syntax_error(error) from error
    except VerifyException as error:
        message = _sentence(str(error))
        raise VerifyError("invalid-attribute", message, parser.source_location()) from error
    except RecursionError as error:
        message = "the text nests too deeply to be read"
        raise ReadError("nested-too-deeply", message, parser.source_location()) from error
    except (Diagnostic, ImportError, NameError):
        raise
    except Exception as error:
        # Upstream's parsers let some malformed text run into their own assumptions (wrong counts,
        # values out of range). Whatever a text does, the user is to get its location.
        message = _what_is_malformed(error)
        raise ReadError("invalid-syntax", message, parser.source_location()) from error
    if len(module.body.blocks) != 1:
        message = f"'builtin.module': expected one block, got {len(module.body.blocks)}"
        raise VerifyError("invalid-operation", message, source_location(module))
    return module


def _what_is_malformed(error: Exception) -> str:
    """What is wrong with a text on which Python raises `error` inside xDSL's parser."""
    said = str(error)
    if "integer string conversion" in said:
        return f"a number has at most {sys.get_int_max_str_digits()} digits"
    if isinstance(error, OverflowError) and "float too large" in said:
        return "the number is too large for its type; infinity is written as its bits in hex"
    if isinstance(error, struct.error):
        return "a number does not fit into the type of its list"
    if isinstance(error, ValueError) and "is out of range for type" in said:
        return _sentence(said)
    return f"malformed text ({type(error).__name__}: {_sentence(said)})"


def _syntax_error(error: ParseError) -> ReadError:
    file, line, column = error.span.get_location()
    return ReadError("invalid-syntax", _sentence(error.msg), SourceLocation(file, line, column))


def _sentence(message: str) -> str:
    """A message of upstream in our style: one line, lower case, no full stop."""
    line = " ".join(message.split()).rstrip(".!")
    if line[1:2].islower():
        line = line[0].lower() + line[1:]
    return _CLEARER.get(line, line) or "malformed text"
