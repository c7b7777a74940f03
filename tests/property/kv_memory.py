"""What a KV memory and its cells would be, as lists: everything that a manager orders is done here, or is illegal."""

from arriero.core.events import (
    CopySequence,
    DropSequence,
    ForgetSaved,
    KvOp,
    MoveSequence,
    RestoreSequence,
    SaveSequence,
    TrimSequence,
)

Text = tuple[str, tuple[int, ...]]
"""A cache scope, and the tokens that were computed in it."""


class IllegalOpError(Exception):
    """No memory could do this and be right."""


class Memory:
    """The tokens of each sequence and of each saved run; sequences that are not here are empty."""

    def __init__(self) -> None:
        self.sequences: dict[int, Text] = {}
        self.saved: dict[int, Text] = {}
        self.keys: set[int] = set()  # ever used

    def tokens(self, sequence: int) -> tuple[int, ...]:
        return self.sequences.get(sequence, ("", ()))[1]

    def compute(self, sequence: int, scope: str, tokens: list[int]) -> None:
        there, known = self.sequences.get(sequence, (scope, ()))
        assert there == scope, f"sequence {sequence} computes for {scope!r} after tokens of {there!r}"
        self.sequences[sequence] = (scope, known + tuple(tokens))

    def apply(self, op: KvOp) -> None:
        match op:
            case DropSequence(sequence):
                self.sequences.pop(sequence, None)
            case TrimSequence(sequence, length):
                self._fill(sequence, self._taken(self.sequences.pop(sequence, ("", ())), length, exactly=False))
            case CopySequence(source, sequence, length):
                self._fill(sequence, self._taken(self.sequences.get(source), length))
            case MoveSequence(source, sequence):
                self._fill(sequence, self.sequences.pop(source, ("", ())))
            case SaveSequence(sequence, key, length, scope, tokens):
                held = self._taken(self.sequences.get(sequence), length)
                if key in self.keys or (tokens and held != (scope, tokens)):
                    raise IllegalOpError(op)
                self.keys.add(key)
                self.saved[key] = held
            case RestoreSequence(sequence, key, length):
                self._fill(sequence, self._taken(self.saved.get(key), length))
            case ForgetSaved(key):
                self.saved.pop(key, None)

    def _taken(self, text: Text | None, length: int, *, exactly: bool = True) -> Text:
        if text is None or (exactly and len(text[1]) < length) or length < 0:
            raise IllegalOpError(text, length)
        return text[0], text[1][:length]

    def _fill(self, sequence: int, text: Text) -> None:
        if sequence in self.sequences:
            raise IllegalOpError(sequence, text)
        if text[1]:
            self.sequences[sequence] = text


class Cells:
    """The cells of each sequence, by number; what a manager has promised, whatever memory did."""

    def __init__(self, *, unified: bool) -> None:
        self.unified = unified
        self.of: dict[int, list[int]] = {}
        self.num_made = 0

    def new(self, number: int) -> list[int]:
        self.num_made += number
        return list(range(self.num_made - number, self.num_made))

    def grow(self, sequence: int, number: int) -> None:
        self.of.setdefault(sequence, []).extend(self.new(number))

    def apply(self, op: KvOp) -> None:
        match op:
            case DropSequence(sequence):
                self.of.pop(sequence, None)
            case TrimSequence(sequence, length):
                del self.of[sequence][length:]
            case CopySequence(source, sequence, length):
                self.of[sequence] = self.of[source][:length] if self.unified else self.new(length)
            case MoveSequence(source, sequence):
                self.of[sequence] = self.of.pop(source)
            case RestoreSequence(sequence, _, length):
                self.of[sequence] = self.new(length)
            case _:
                pass

    def held(self, sequences: set[int]) -> set[int]:
        """The cells of some sequences, each once."""
        return {cell for sequence in sequences for cell in self.of[sequence]}
