"""The passes that a command line names, made from what is available."""

from __future__ import annotations

import argparse
import dataclasses
import difflib
from collections.abc import Mapping, Sequence
from typing import get_type_hints

from xdsl.passes import ModulePass
from xdsl.utils.arg_spec import ArgSpec, PipelineLexer, SpecTokenKind, parse_pipeline
from xdsl.utils.exceptions import ArgSpecParseError
from xdsl.utils.hints import isa

from pallasite.diagnostics import Note, UsageError
from pallasite.passes.plugins import installed_passes, passes_of_file
from pallasite.passes.registry import PassFactory, get_all_passes
from pallasite.tools.command_line import flatten


def available_passes(plugins: Sequence[str] = ()) -> dict[str, PassFactory]:
    """Passes by name: xDSL's, those of installed packages, ours, and those of the files `plugins`.

    A file that takes a name that is in use is refused: it would go unnoticed.
    """
    from xdsl.transforms import get_all_passes as get_upstream_passes

    passes = {**get_upstream_passes(), **installed_passes(), **get_all_passes()}
    for path in plugins:
        for name, factory in passes_of_file(path).items():
            if name in passes:
                raise UsageError("pass-plugin", f"{path}: a pass is called {name!r} already")
            passes[name] = factory
    return passes


def make_passes(
    pipeline: str, available: Mapping[str, PassFactory], target: str
) -> tuple[ModulePass, ...]:
    """The passes of `pipeline`, for `target` where they take one and do not say otherwise."""
    try:
        specs = tuple(parse_pipeline(pipeline))
        _check_once(pipeline)
    except ArgSpecParseError as error:
        # The sentence below the quoted pipeline, which we quote in our way.
        message = str(error).strip().splitlines()[-1].strip(" |^").removesuffix(" here")
        message = f"{message[:1].lower()}{message[1:]} in the pipeline {pipeline}"
        raise UsageError("invalid-pipeline", message) from error
    return tuple(_make_pass(spec, available, target) for spec in specs)


def _check_once(pipeline: str) -> None:
    """Refuses options that a pass is given twice, of which xDSL would take the last."""
    lexer, kind = PipelineLexer(pipeline), SpecTokenKind
    name, given = "", set[str]()
    inside = False
    before = kind.COMMA
    while (token := lexer.lex()).kind is not kind.EOF:
        text = token.span.text
        if token.kind in (kind.L_BRACE, kind.R_BRACE):
            inside, given = token.kind is kind.L_BRACE, set()
        elif token.kind is kind.IDENT and not inside:
            name = text
        elif token.kind is kind.IDENT and before in (kind.L_BRACE, kind.SPACE):
            if (option := text.replace("-", "_")) in given:
                message = f"{name}: option {option!r} is given twice"
                raise UsageError("invalid-pass-option", message)
            given.add(option)
        before = token.kind


def _make_pass(spec: ArgSpec, available: Mapping[str, PassFactory], target: str) -> ModulePass:
    factory = available.get(spec.name)
    if factory is None:
        close = difflib.get_close_matches(spec.name, available, 3)
        known = (
            f"did you mean {' or '.join(close)}?" if close else "tpu-opt --help lists the passes"
        )
        raise UsageError("unknown-pass", f"no pass is called {spec.name!r}", notes=[Note(known)])
    kind = factory()
    options = [f.name for f in dataclasses.fields(kind) if f.name != "name" and f.init]
    spec = spec.normalize_parameter_names()
    for option in spec.parameters:
        if option not in options:
            known = f"it has {', '.join(options)}" if options else "it has none"
            raise UsageError(
                "invalid-pass-option",
                f"{spec.name} has no option {option!r}",
                notes=[Note(known)],
            )
    _check_values(spec, kind)
    if "target" in options and "target" not in spec.parameters:
        spec = ArgSpec(spec.name, {**spec.parameters, "target": (target,)})
    try:
        return kind.from_spec(spec)
    except Exception as error:
        # xDSL raises whatever the conversion of an option raises.
        raise UsageError("invalid-pass-option", f"{spec.name}: {error}") from error


def _check_values(spec: ArgSpec, kind: type[ModulePass]) -> None:
    """Refuses values that are not of the types that the options of a pass have."""
    types = get_type_hints(kind)
    for option, values in spec.parameters.items():
        type = types[option]
        if isa(values, type) or (len(values) == 1 and isa(values[0], type)):
            continue
        if not values and isa(None, type):
            continue
        expected = getattr(type, "__name__", str(type))
        got = ", ".join(map(repr, values)) or "nothing"
        message = f"{spec.name}: expected {expected} for option {option!r}, got {got}"
        raise UsageError("invalid-pass-option", message)


def chosen_passes(options: argparse.Namespace, target: str) -> tuple[ModulePass, ...]:
    """The passes that options of `command_line.add_lowering_options` name, in their order."""
    if not options.passes and not options.load_pass_plugin:
        return ()
    available = available_passes(options.load_pass_plugin)
    return make_passes(",".join(map(flatten, options.passes)), available, target)
