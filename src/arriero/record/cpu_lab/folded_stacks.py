"""FoldedStacks: the file from which a flame graph is drawn, one line for each different stack.

    main [python3.11];llama_decode [libllama.so];ggml_barrier [libgomp.so.1] 412

Frames stand from the outermost to the innermost, with semicolons between; the number is the weight.
"""

from collections.abc import Iterator
from typing import NamedTuple

from arriero.core.errors import DataError


class FoldedStacks(NamedTuple):
    """Stacks with weights, in the order of the alphabet."""

    stacks: tuple[tuple[tuple[str, ...], int], ...]

    @property
    def weight(self) -> int:
        """Of all."""
        return sum(weight for _, weight in self.stacks)

    def encode(self) -> bytes:
        """The file; the same stacks give the same bytes."""
        return "".join(f"{';'.join(frames)} {weight}\n" for frames, weight in self.stacks).encode()


def decode_stacks(data: bytes, *, file: str) -> FoldedStacks:
    """Read a file of folded stacks.

    Raises:
        DataError: not UTF-8, or a line that is no stack with a weight.
    """
    try:
        lines = data.decode().splitlines()
    except UnicodeDecodeError:
        raise DataError("not UTF-8; is it a file of folded stacks?", file=file) from None
    return FoldedStacks(tuple(_stacks(lines, file)))


def _stacks(lines: list[str], file: str) -> Iterator[tuple[tuple[str, ...], int]]:
    for number, line in enumerate(lines, start=1):
        stack, _, weight = line.rpartition(" ")
        frames = tuple(stack.split(";"))
        if not all(frames) or not (weight.isascii() and weight.isdigit() and 0 < int(weight[:20]) < 2**63):
            message = f"line {number}: is no stack with a weight; write frame;frame;frame NUMBER"
            raise DataError(message, file=file, line=number)
        yield frames, int(weight)


def stack_word(symbol: str, shared_object: str) -> str:
    """What a frame is called."""
    return f"{clean_frame(symbol)} [{clean_frame(shared_object)}]"


def clean_frame(word: str) -> str:
    """A name without what would end a frame or a line, or could not stand in a picture."""
    one_line = " ".join(word.replace(";", ":").split())
    return "".join(letter if letter.isprintable() else "?" for letter in one_line) or "unnamed"
