"""A position in a run of bytes, and the primitive encodings of MLIR bytecode.

Every read is checked against the end of the run; a failed one raises `ReadError` naming the byte
offset in the file and what was expected there.
"""

from __future__ import annotations

from pallasite.diagnostics import ReadError, SourceLocation


class Cursor:
    """Reads forward through `data[position:end]`, all of `data` by default.

    `name` is the file that errors speak of. What does not fit raises a `ReadError` with the byte.
    """

    __slots__ = ("data", "end", "name", "position")

    def __init__(self, data: bytes, name: str, position: int = 0, end: int | None = None) -> None:
        self.data = data
        self.name = name
        self.position = position
        self.end = len(data) if end is None else end

    def error(
        self, message: str, *, code: str = "corrupt-bytecode", position: int | None = None
    ) -> ReadError:
        """A diagnostic for byte `position`, by default where the cursor stands."""
        where = self.position if position is None else position
        return ReadError(code, f"{message} at byte {where}", SourceLocation(self.name))

    def require(self, size: int, what: str) -> None:
        """Checks that `size` more bytes are there."""
        left = self.end - self.position
        if size > left:
            raise self.error(
                f"expected {size} bytes of {what}, got {left}", code="truncated-bytecode"
            )

    @property
    def done(self) -> bool:
        """Whether nothing is left to read."""
        return self.position >= self.end

    def byte(self) -> int:
        """The next byte."""
        position = self.position
        if position >= self.end:
            raise self.error("expected a byte, got the end", code="truncated-bytecode")
        self.position = position + 1
        return self.data[position]

    def varint(self) -> int:
        """An unsigned integer: the trailing zeros of the first byte count the bytes that follow."""
        position = self.position
        if position >= self.end:
            raise self.error("expected an integer, got the end", code="truncated-bytecode")
        first = self.data[position]
        if first & 1:
            self.position = position + 1
            return first >> 1
        if first == 0:
            self.require(9, "an integer")
            self.position = position + 9
            return int.from_bytes(self.data[position + 1 : position + 9], "little")
        size = (first & -first).bit_length()
        self.require(size, "an integer")
        self.position = position + size
        return int.from_bytes(self.data[position : position + size], "little") >> size

    def signed(self) -> int:
        """A signed integer, stored zigzag."""
        value = self.varint()
        return (value >> 1) ^ -(value & 1)

    def count(self, what: str) -> int:
        """The length of a list whose every element takes at least one byte.

        Checking it against the bytes that are left keeps a corrupt length from reserving memory.
        """
        position = self.position
        value = self.varint()
        if value > self.end - self.position:
            raise self.error(
                f"expected at most {self.end - self.position} {what}, got {value}",
                position=position,
            )
        return value

    def index(self, limit: int, what: str) -> int:
        """An index into a table of `limit` entries."""
        position = self.position
        value = self.varint()
        if value >= limit:
            raise self.error(
                f"expected the index of one of {limit} {what}, got {value}", position=position
            )
        return value

    def bytes(self, size: int, what: str) -> bytes:
        """The next `size` bytes, which are `what` in the message if there are fewer."""
        self.require(size, what)
        position = self.position
        self.position = position + size
        return self.data[position : position + size]

    def blob(self, what: str) -> bytes:
        """Bytes preceded by their number."""
        return self.bytes(self.count(f"bytes of {what}"), what)

    def text(self, what: str) -> str:
        """A string that ends with a zero byte."""
        stop = self.data.find(0, self.position, self.end)
        if stop < 0:
            raise self.error(f"expected a zero byte that ends {what}", code="truncated-bytecode")
        start, self.position = self.position, stop + 1
        return self.decode(self.data[start:stop], what, start)

    def decode(self, data: bytes, what: str, position: int) -> str:
        """`data` as UTF-8."""
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise self.error(f"expected UTF-8 in {what}", position=position) from None

    def slice(self, size: int, what: str) -> Cursor:
        """A cursor over the next `size` bytes, which this one steps over."""
        self.require(size, what)
        start = self.position
        self.position = start + size
        return Cursor(self.data, self.name, start, self.position)
