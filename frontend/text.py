"""MLIR text in, module of registered operations out; errors become diagnostics with a place."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import ParseError, VerifyException

from pallasite.diagnostics import ReadError, SourceLocation, VerifyError
from pallasite.dialects import make_context
from pallasite.frontend.text_parser import TextParser

__all__ = ["read_text"]


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
    parser: TextParser | None = None
    try:
        parser = TextParser(context or make_context(), text.removeprefix("\ufeff"), name)
        return parser.parse_module(implicit_module)
    except ParseError as error:
        where = _position(text, name, error.span.start)
        raise ReadError("invalid-syntax", _sentence(error.msg), where) from error
    except VerifyException as error:
        raise VerifyError(
            "invalid-operation", _sentence(str(error)), _here(text, name, parser)
        ) from (error)
    except RecursionError as error:
        raise ReadError(
            "nested-too-deeply", "the text nests too deeply to be read", _here(text, name, parser)
        ) from error
    except (ImportError, NameError):
        raise
    except Exception as error:
        # Upstream's parsers let some malformed text run into their own assumptions (wrong counts,
        # values out of range). Whatever a text does, the user is to get its place.
        raise ReadError(
            "invalid-syntax",
            f"malformed text ({type(error).__name__}: {_sentence(str(error))})",
            _here(text, name, parser),
        ) from error


def _sentence(message: str) -> str:
    """A message of upstream in our style: one line, lower case, no full stop."""
    line = " ".join(message.split()).rstrip(".!")
    if line[1:2].islower():
        line = line[0].lower() + line[1:]
    return line or "malformed text"


def _here(text: str, name: str, parser: TextParser | None) -> SourceLocation:
    return _position(text, name, parser.pos if parser is not None else 0)


def _position(text: str, name: str, offset: int) -> SourceLocation:
    line = text.count("\n", 0, offset) + 1
    return SourceLocation(name, line, offset - text.rfind("\n", 0, offset))
