"""Flat vectors that loops and branches carry."""

from __future__ import annotations

from functools import partial

import pytest

from ..checking import beyond, check, kernel, load, memref


def carried(element: str, body: str, first: str = "%l", branch: bool = False) -> str:
    """A loop or branch over a flat vector; `%l` is loaded, `%n` narrowed, `%k` a constant."""
    kind = f"vector<1024x{element}>"
    wide = kind.replace(element, "f32" if "f" in element else "i32")
    widen, narrow = ("extf", "truncf") if "f" in element else ("extsi", "trunci")
    one = "1.0" if "f" in element else "1"
    inner = f"""%v1 = arith.{widen} %v : {kind} to {wide}
      %w = arith.{narrow} %v1 : {wide} to {kind}""" if body == "narrowed" else (
        f"%w = {body} : {kind}"
    )  # fmt: skip
    loop = f"""%r = scf.for %i = %c0 to %c9 step %c1 iter_args(%v = {first}) -> ({kind}) {{
      {inner}
      scf.yield %w : {kind}
    }}"""
    choice = f"""%r = scf.if %true -> ({kind}) {{
      {inner.replace("%v ", first + " ")}
      scf.yield %w : {kind}
    }} else {{
      scf.yield {first} : {kind}
    }}"""
    return kernel(
        f"%x: {memref(f'1024x{element}')}, %true: i1",
        load("l", "x", f"1024x{element}", "%c0")
        + f"""%k = arith.constant dense<{one}> : {kind}
    %c1 = arith.constant 1 : index
    %c9 = arith.constant 9 : index
    %wide = arith.{widen} %l : {kind} to {wide}
    %n = arith.{narrow} %wide : {wide} to {kind}
    {choice if branch else loop}""",
    )


@pytest.mark.parametrize("branch", [False, True])
@pytest.mark.parametrize("element", ["bf16", "i16", "i8"])
def test_flat_vectors_carried_as_loaded_and_as_narrowed(element: str, branch: bool) -> None:
    beyond(carried(element, "narrowed", branch=branch), "carried-flat")
    check(carried(element, "narrowed", "%n", branch=branch))
    check(carried(element, "narrowed", "%k", branch=branch))


def test_flat_vectors_lie_where_the_target_computes_them() -> None:
    beyond(carried("bf16", "arith.mulf %v, %v"), "carried-flat", "v5e")
    check(carried("bf16", "arith.mulf %v, %v"), "v6e")
    check(carried("bf16", "arith.negf %v"), "v5e")
    beyond(carried("bf16", "math.exp %v"), "carried-flat", "v5e")
    check(carried("bf16", "math.exp %v"), "v6e")
    check(carried("bf16", "math.sin %v"), "v5e")
    beyond(carried("i16", "arith.addi %v, %k"), "carried-flat", "v5e")
    check(carried("i16", "arith.addi %v, %k"), "v6e")
    check(carried("i16", "arith.xori %k, %v"))
    check(carried("i16", "arith.xori %v, %l", "%n"))
    beyond(carried("i16", "arith.xori %l, %v", "%n"), "carried-flat")


def test_flat_vectors_are_widened_where_the_target_lacks_bf16() -> None:
    for operation in ("arith.maximumf %v, %v", "math.tanh %v", "math.powf %v, %v"):
        beyond(carried("bf16", operation), "carried-flat", "v5e")
        check(carried("bf16", operation), "v6e")


def meeting(first: str, last: str, branch: bool = False) -> str:
    """A loop that begins with one flat vector and ends its turns with another, or a branch."""
    kind = "vector<256xf32>"
    made = (
        load("l", "x", "256xf32")
        + load("z", "rows", "8x256xf32")
        + load("t", "tall", "256x128xf32")
    )
    made += load("q", "square", "2x128xf32")
    made += f"""%k = arith.constant dense<1.0> : {kind}
    %k2 = arith.constant dense<1.0> : vector<2x128xf32>
    %loaded = arith.addf %l, %k : {kind}
    %row = vector.multi_reduction <maximumf>, %z, %k [0] : vector<8x256xf32> to {kind}
    %column = vector.multi_reduction <maximumf>, %t, %k [1] : vector<256x128xf32> to {kind}
    %third0 = vector.extract_strided_slice %z
        {{offsets = [3, 0], sizes = [1, 256], strides = [1, 1]}}
        : vector<8x256xf32> to vector<1x256xf32>
    %third = vector.shape_cast %third0 : vector<1x256xf32> to {kind}
    %q1 = arith.addf %q, %k2 : vector<2x128xf32>
    %flat = vector.shape_cast %q1 : vector<2x128xf32> to {kind}
    %loaded_rows = vector.shape_cast %q : vector<2x128xf32> to {kind}
    %row_first = arith.addf %row, %l : {kind}
    %of_rows = arith.cmpf ogt, %row, %k : {kind}
    %of_memory = arith.cmpf ogt, %loaded, %l : {kind}
    %chosen_by_rows = arith.select %of_rows, %l, %loaded : vector<256xi1>, {kind}
    %chosen = arith.select %of_memory, %row, %l : vector<256xi1>, {kind}
    %either = arith.select %true, %l, %loaded : {kind}
    %piece = vector.extract_strided_slice %third
      {{offsets = [0], sizes = [128], strides = [1]}} : {kind} to vector<128xf32>
    %joined = tpu.concatenate %piece, %piece in 0 : vector<128xf32>, vector<128xf32> -> {kind}
    %c1 = arith.constant 1 : index
    %c9 = arith.constant 9 : index
    """
    turn = f"""%a = vector.extract_strided_slice %v
      {{offsets = [128], sizes = [128], strides = [1]}} : {kind} to vector<128xf32>
    %b = vector.extract_strided_slice %v {{offsets = [0], sizes = [128], strides = [1]}}
      : {kind} to vector<128xf32>
    %rolled = tpu.concatenate %a, %b in 0 : vector<128xf32>, vector<128xf32> -> {kind}
    %sum = arith.addf %v, %row : {kind}
    %mus = arith.addf %row, %v : {kind}
    %in_memory = arith.cmpf olt, %l, %k : {kind}
    %in_row = arith.cmpf olt, %row, %k : {kind}
    %in_both = arith.andi %in_memory, %in_row : vector<256xi1>
    %by_memory = arith.select %in_memory, %sum, %v : vector<256xi1>, {kind}
    %by_row = arith.select %in_row, %sum, %v : vector<256xi1>, {kind}
    %by_both = arith.select %in_both, %sum, %v : vector<256xi1>, {kind}
    %by_scalar = arith.select %true, %sum, %v : {kind}"""
    loop = f"""%r = scf.for %i = %c0 to %c9 step %c1 iter_args(%v = %{first}) -> ({kind}) {{
      {turn}
      scf.yield %{last} : {kind}
    }}"""
    choice = f"""%r = scf.if %true -> ({kind}) {{
      scf.yield %{first} : {kind}
    }} else {{
      scf.yield %{last} : {kind}
    }}"""
    arguments = (
        f"%x: {memref('256xf32')}, %rows: {memref('8x256xf32')}, %tall: {memref('256x128xf32')}, "
        f"%square: {memref('2x128xf32')}, %true: i1"
    )
    return kernel(arguments, made + (choice if branch else loop))


@pytest.mark.parametrize(
    ("first", "last"),
    [
        ("loaded", "row"), ("loaded", "third"), ("loaded", "mus"), ("flat", "row"),
        ("row", "flat"), ("row", "loaded"), ("row", "rolled"), ("third", "rolled"),
        ("loaded_rows", "rolled"), ("loaded_rows", "flat"), ("row_first", "rolled"),
        ("column", "row"), ("row", "column"), ("l", "column"), ("loaded", "by_row"),
        ("row", "by_memory"), ("row", "by_both"), ("row", "l"), ("column", "l"),
        ("l", "chosen_by_rows"), ("row", "chosen"), ("row", "either"),
    ],
)  # fmt: skip
def test_flat_vectors_of_two_places_do_not_meet_in_a_loop(first: str, last: str) -> None:
    beyond(meeting(first, last), "carried-flat")


@pytest.mark.parametrize(
    ("first", "last"),
    [
        ("loaded", "rolled"), ("loaded", "flat"), ("loaded", "sum"), ("row", "third"),
        ("row", "sum"), ("row", "mus"), ("k", "row"),
        ("k", "rolled"), ("loaded", "k"), ("loaded_rows", "row"), ("row", "by_row"),
        ("loaded", "by_memory"), ("loaded", "by_both"), ("loaded", "by_scalar"),
        ("row", "by_scalar"), ("row", "chosen_by_rows"), ("l", "chosen"), ("l", "either"),
    ],
)  # fmt: skip
def test_flat_vectors_of_one_place_meet_in_a_loop(first: str, last: str) -> None:
    check(meeting(first, last))


def test_flat_vectors_of_two_places_do_not_meet_in_a_branch() -> None:
    for first, last in (("l", "row"), ("row", "l"), ("flat", "row"), ("column", "row")):
        beyond(meeting(first, last, branch=True), "carried-flat")
    check(meeting("l", "flat", branch=True))
    check(meeting("row", "third", branch=True))
    for first, last in (("row", "joined"), ("third", "joined"), ("column", "joined")):
        beyond(meeting(first, last, branch=True), "carried-flat")
    check(meeting("flat", "joined", branch=True))


@pytest.mark.parametrize("branch", [False, True])
def test_words_have_one_place_whatever_is_computed(branch: bool) -> None:
    """Only narrow integers are added as words and narrowed again."""
    for body in ("arith.addi %l, %k", "arith.muli %l, %l"):
        check(carried("i32", body, branch=branch), "v5e")


def test_words_that_become_words_stay_where_they_are() -> None:
    text = meeting("loaded", "by_scalar", branch=False)
    there = "%there = arith.fptosi %v : vector<256xf32> to vector<256xi32>\n"
    back = "%back = arith.sitofp %there : vector<256xi32> to vector<256xf32>\n"
    text = text.replace("scf.yield %by_scalar", there + back + "scf.yield %back")
    check(text)
    beyond(text.replace("fptosi %v", "fptosi %row"), "carried-flat")


def test_a_narrowed_column_stays_a_column() -> None:
    """Narrowed rows and flat vectors meet, a column only another one."""

    def narrowed(first: str, last: str) -> str:
        text = meeting("loaded", "loaded", branch=True)
        kind, narrow = "vector<256xf32>", "vector<256xbf16>"
        head, tail = text.split("%r = scf.if %true -> (" + kind)
        for name, value in (("n0", first), ("n1", last)):
            head += f"%{name} = arith.truncf %{value} : {kind} to {narrow}\n"
        tail = tail.replace(f"%loaded : {kind}", f"%n0 : {narrow}", 1)
        tail = tail.replace(f"%loaded : {kind}", f"%n1 : {narrow}", 1)
        return f"{head}%r = scf.if %true -> ({narrow}{tail}"

    for first, last in (("row", "loaded"), ("row", "third"), ("column", "column")):
        check(narrowed(first, last))
    for other in ("row", "loaded"):
        beyond(narrowed("column", other), "carried-flat")
        beyond(narrowed(other, "column"), "carried-flat")
    summed = narrowed("row", "column").replace(
        "%r = scf.if", "%s = arith.addf %n1, %n1 : vector<256xbf16>\n%r = scf.if"
    )
    for target in ("v5e", "v6e"):  # the former adds words
        beyond(summed.replace("scf.yield %n1", "scf.yield %s"), "carried-flat", target)


def test_integers_made_of_floats_keep_a_word_each() -> None:
    """As those that were narrowed."""
    text = carried("i16", "narrowed", branch=True)
    text = text.replace("arith.trunci %v1 : vector<1024xi32>", "arith.fptosi %f : vector<1024xf32>")
    into = "%f = arith.sitofp %v1 : vector<1024xi32> to vector<1024xf32>\n      %w ="
    beyond(text.replace("%w =", into, 1), "carried-flat")


def row_of(rows: int, columns: int, element: str, sliced: bool, other: str = "l") -> str:
    """A branch between a row of a matrix, loaded or taken of all of it, and a flat array, or the
    maxima of its columns."""
    kind, whole = f"vector<{columns}x{element}>", f"{rows}x{columns}x{element}"
    if sliced:
        row = load("m", "x", whole) + (
            f"%one = vector.extract_strided_slice %m {{offsets = [2, 0], sizes = [1, {columns}], "
            f"strides = [1, 1]}} : vector<{whole}> to vector<1x{columns}x{element}>\n"
        )
    else:
        row = (
            "%c2 = arith.constant 2 : index\n%one = vector.load %x[%c2, %c0] : "
            f"{memref(whole)}, vector<1x{columns}x{element}>\n"
        )
    body = f"""%row = vector.shape_cast %one : vector<1x{columns}x{element}> to {kind}
    %least = arith.constant dense<0.0> : {kind}
    {load("z", "x", whole)}
    %reduced = vector.multi_reduction <maximumf>, %z, %least [0] : vector<{whole}> to {kind}
    %r = scf.if %true -> ({kind}) {{
      scf.yield %row : {kind}
    }} else {{
      scf.yield %{other} : {kind}
    }}"""
    flat = f"{columns}x{element}"
    arguments = f"%x: {memref(whole)}, %y: {memref(flat)}, %true: i1"
    return kernel(arguments, load("l", "y", flat, "%c0") + row + body)


@pytest.mark.parametrize("element", ["f32", "bf16"])
def test_a_row_of_any_matrix_is_no_flat_array(element: str) -> None:
    for rows, columns in ((8, 128), (4, 128), (4, 16)):
        for sliced in (False, True):
            beyond(row_of(rows, columns, element, sliced), "carried-flat")
    for rows, columns in ((4, 256), (8, 256), (64, 256), (20, 130)):
        beyond(row_of(rows, columns, element, sliced=True), "carried-flat")
        wide = row_of(rows, columns, element, sliced=False)
        # Words of a row of several tiles are loaded to where a flat array lies.
        check(wide) if element == "f32" else beyond(wide, "carried-flat")


def test_a_wide_row_of_words_is_no_row_that_a_reduction_leaves() -> None:
    for rows, columns in ((4, 256), (8, 200), (16, 1024)):
        text = row_of(rows, columns, "f32", sliced=False, other="reduced")
        beyond(text, "carried-flat")


@pytest.mark.parametrize(
    ("shape", "dims", "good"),
    [("1x256", "[0]", True), ("8x256", "[0]", False), ("8x1x256", "[0, 1]", False)],
)
def test_a_reduction_of_one_row_leaves_it_where_it_lies(shape: str, dims: str, good: bool) -> None:
    (check if good else partial(beyond, code="carried-flat"))(reduced(shape, dims, "256"))


def test_leading_dimensions_of_single_rows_are_reduced_where_they_lie() -> None:
    check(reduced("8x1x256", "[0]", "1x256"))
    beyond(reduced("8x1x128", "[0]", "1x128"), "carried-flat")


def reduced(shape: str, dims: str, left: str) -> str:
    """A branch between the one row that a reduction leaves and a flat array."""
    flat, kind = left.split("x")[-1], f"vector<{left}xf32>"
    row, cast = "%m0", ""
    if left != flat:
        row, cast = "%row", f"%row = vector.shape_cast %m0 : {kind} to vector<{flat}xf32>"
    body = load("l", "y", f"{flat}xf32", "%c0") + load("m", "x", f"{shape}xf32") + f"""
        %k = arith.constant dense<0.0> : {kind}
        %m0 = vector.multi_reduction <maximumf>, %m, %k {dims} : vector<{shape}xf32> to {kind}
        {cast}
        %r = scf.if %true -> (vector<{flat}xf32>) {{
          scf.yield {row} : vector<{flat}xf32>
        }} else {{
          scf.yield %l : vector<{flat}xf32>
        }}"""  # fmt: skip
    arguments = f"%x: {memref(f'{shape}xf32')}, %y: {memref(f'{flat}xf32')}, %true: i1"
    return kernel(arguments, body)


def rows(element: str, first: str, last: str, columns: int = 128) -> str:
    """A branch between rows that packed elements have in memory (`%r8_1` is row 1 of 8) or that
    were narrowed from words, or what memory holds row by row."""
    kind, one = f"vector<{columns}x{element}>", f"vector<1x{columns}x{element}>"
    word = "f32" if element == "bf16" else "i32"
    wide, narrow = kind.replace(element, word), "truncf" if element == "bf16" else "trunci"
    widen = "extf" if element == "bf16" else "extsi"
    add = {"bf16": "addf", "i16": "addi", "i8": "andi"}[element]
    body = load("flat", "x", f"{columns}x{element}", "%c0")
    body += load("words", "w", f"{columns}x{word}", "%c0")
    for count in (1, 4, 8, 32):
        held = memref(f"{count}x{columns}x{element}")
        for row in sorted({0, 1 % count, min(count - 1, 8)}):
            name = f"r{count}_{row}"
            body += f"""%i{name} = arith.constant {row} : index
            %l{name} = vector.load %y{count}[%i{name}, %c0] : {held}, {one}
            %{name} = vector.shape_cast %l{name} : {one} to {kind}
            %w{name} = arith.{widen} %{name} : {kind} to {wide}
            %n{name} = arith.{narrow} %w{name} : {wide} to {kind}
            %{name}_sum = arith.{add} %{name}, %flat : {kind}
            %by_{name} = arith.select %true, %{name}, %flat : {kind}
            """
    body += f"""%narrow = arith.{narrow} %words : {wide} to {kind}
    %flat_sum = arith.{add} %flat, %r8_1 : {kind}
    {load("m", "y32", f"32x{columns}x{element}")}
    %second = vector.extract_strided_slice %m {{offsets = [1, 0], sizes = [1, {columns}],
      strides = [1, 1]}} : vector<32x{columns}x{element}> to {one}
    %sliced = vector.shape_cast %second : {one} to {kind}
    %r = scf.if %true -> ({kind}) {{
      scf.yield %{first} : {kind}
    }} else {{
      scf.yield %{last} : {kind}
    }}"""
    arguments = f"%x: {memref(f'{columns}x{element}')}, %w: {memref(f'{columns}x{word}')}, "
    arguments += ", ".join(
        f"%y{count}: {memref(f'{count}x{columns}x{element}')}" for count in (1, 4, 8, 32)
    )
    return kernel(arguments + ", %true: i1", body)


@pytest.mark.parametrize("target", ["v5e", "v6e"])
@pytest.mark.parametrize("element", ["bf16", "i16", "i8"])
def test_rows_of_packed_elements_lie_in_their_row_of_their_tile(element: str, target: str) -> None:
    for row in ("r32_1", "sliced", "r1_0", "r4_1", "by_r8_1"):
        check(rows(element, row, row), target)
        beyond(rows(element, "r32_0", row), "carried-flat", target)
    check(rows(element, "r32_1", "sliced"), target)
    beyond(rows(element, "r4_1", "r8_1"), "carried-flat", target)
    # Tiles of bytes have 4 to 32 rows, of half words 2 to 8.
    for first, last, halves in (("r1_0", "by_r4_0", False), ("r32_0", "r32_8", True)):
        good = halves == (element != "i8")
        ask = check if good else partial(beyond, code="carried-flat")
        ask(rows(element, first, last), target=target)


@pytest.mark.parametrize("element", ["bf16", "i16"])
def test_half_words_that_were_narrowed_lie_in_tiles_of_registers(element: str) -> None:
    """Of 8 rows on chips that compute no half words, as in memory, else of 16."""
    for last in ("narrow", "flat_sum", "nr4_0"):
        check(rows(element, "r8_0", last), "v5e")
        beyond(rows(element, "r8_1", last), "carried-flat", "v5e")
        beyond(rows(element, "r8_0", last), "carried-flat", "v6e")
    check(rows(element, "nr8_1", "nr4_1"), "v6e")
    check(rows(element, "r8_1", "r4_1_sum"), "v5e")
    check(rows(element, "r4_1", "r4_1_sum"), "v6e")
    check(rows(element, "flat", "flat_sum"), "v6e")


def test_bytes_that_were_narrowed_lie_in_tiles_of_32_rows() -> None:
    for target in ("v5e", "v6e"):
        check(rows("i8", "r32_0", "narrow"), target)
        beyond(rows("i8", "r32_1", "narrow"), "carried-flat", target)
        beyond(rows("i8", "r8_0", "narrow"), "carried-flat", target)


def test_rows_of_words_lie_in_their_row() -> None:
    text = meeting("third", "third", branch=True)
    check(text)
    other = text.replace("%r = scf.if", """%first0 = vector.extract_strided_slice %z
      {offsets = [1, 0], sizes = [1, 256], strides = [1, 1]}
      : vector<8x256xf32> to vector<1x256xf32>
    %first = vector.shape_cast %first0 : vector<1x256xf32> to vector<256xf32>
    %r = scf.if""")  # fmt: skip
    beyond(other.replace("yield %third", "yield %first", 1), "carried-flat")
