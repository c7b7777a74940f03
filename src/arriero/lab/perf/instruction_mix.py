"""What instructions are for: each has one kind, by its name and operands as objdump writes them for x86-64."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

from arriero.lab.perf.disassembly import Instruction
from arriero.record.cpu_lab.assembly import InstructionMix, Kind, Width

# The first pattern that fits wins.
_KINDS: Final = tuple(
    (kind, re.compile(words))
    for kind, words in (
        (Kind.PADDING, r"nop\w*|endbr64|int3|ud2|fnop"),
        (Kind.CALL, r"call\w*"),
        (Kind.BRANCH, r"j\w+|ret\w*|loop\w*"),
        (Kind.INTEGER_DOT, r"v?pdp\w+|v?pmaddubsw|v?pmaddwd|tdpb\w+|v4dpw\w+"),
        (Kind.FMA, r"vfn?m(?:add|sub|addsub|subadd)\d{3}[ps][sdh]|vdpbf16ps|tdpbf16ps"),
        (Kind.CONVERSION, r"v?cvt\w+|v?pmov[sz]x\w+|vpmov(?:us|s)?(?:dw|db|wb|qd|qw|qb)"),
    )
)
_MOVE: Final = re.compile(
    r"v?mov(?!msk)\w*|v?lddqu|v?(?:p?broadcast|gather)\w*|vp?(?:gather|scatter|expand|compress|maskmov)\w*|push\w*|pop\w*"
    r"|vbroadcast\w*"
)
_VECTOR: Final = re.compile(r"%([xyz])mm\d")
_MEMORY: Final = re.compile(r"\([%,]|^(?:%[cdefgs]s:)?-?0x[0-9a-f]+$|%[fg]s:")
_ADDRESS_ONLY: Final = re.compile(r"lea\w*|nop\w*|prefetch\w*")
_READS_ONLY: Final = re.compile(r"v?u?comis[sd]|cmp\w*|test\w*|bt\w?|v?ptest|push\w*|j\w+|call\w*|i?div\w*")
_ONE_NUMBER: Final = re.compile(r"v?cvt\w*(?:s[sd]2|2s[sdi]|si2|2si|sh2|2sh)\w*")
_ONE_FLOAT: Final = re.compile(r"(?!v?p|vbroadcast)\w+s[sdh]|v?cvt\w*(?:s[sd]2|2s[sdi]|si2|2si)\w*|v?mov[dq]")
_XOR: Final = re.compile(r"v?(?:pxor[dq]?|xorp[sd])")
_PACKED_HALF: Final = re.compile(r"vcvtph2ps|vcvtps2ph")
_WIDTHS: Final = (("z", Width.BITS_512), ("y", Width.BITS_256), ("x", Width.BITS_128))


def mix_of(instructions: Sequence[Instruction]) -> InstructionMix:
    """How many of which kind."""
    kinds, widths = Counter[Kind](), Counter[Width]()
    reads = writes = single = 0
    for position, each in enumerate(instructions):
        kind = kind_of(each)
        kinds[kind] += 1
        width = width_of(each)
        if width is not None:
            widths[width] += 1
        reads += _reads(each)
        writes += _writes(each)
        single += kind is Kind.CONVERSION and _converts_one(each, instructions[position - 1] if position else None)
    order = list(Kind)
    return InstructionMix(
        total=len(instructions),
        kinds=dict(sorted(kinds.items(), key=lambda pair: (-pair[1], order.index(pair[0])))),
        widths={width: widths[width] for _, width in _WIDTHS if widths[width]},
        memory_reads=reads,
        memory_writes=writes,
        scalar_conversions=single,
    )


def kind_of(instruction: Instruction) -> Kind:
    """The kind of one instruction."""
    if (instruction.mnemonic, instruction.operands) == ("xchg", "%ax,%ax"):
        return Kind.PADDING
    named = next((kind for kind, pattern in _KINDS if pattern.fullmatch(instruction.mnemonic)), None)
    if named is not None:
        return named
    if _MOVE.fullmatch(instruction.mnemonic) and _touches_memory(instruction):
        return Kind.STORE if _writes(instruction) else Kind.LOAD
    return Kind.SCALAR if width_of(instruction) is None else Kind.VECTOR


def width_of(instruction: Instruction) -> Width | None:
    """The widest vector register that it names.

    None without any, for arithmetic on one number in such a register, and where it is only set to 0.
    """
    if _ONE_FLOAT.fullmatch(instruction.mnemonic) or _sets_to_zero(instruction):
        return None
    letters = set(_VECTOR.findall(instruction.operands))
    return next((width for letter, width in _WIDTHS if letter in letters), None)


def _sets_to_zero(instruction: Instruction) -> bool:
    return _XOR.fullmatch(instruction.mnemonic) is not None and len(set(_operands(instruction.operands))) == 1


def _touches_memory(instruction: Instruction) -> bool:
    if _ADDRESS_ONLY.fullmatch(instruction.mnemonic):
        return False
    return any(_MEMORY.search(operand) for operand in _operands(instruction.operands))


def _writes(instruction: Instruction) -> bool:
    """Whether its destination, the last operand, lies in memory."""
    operands = _operands(instruction.operands)
    if not operands or not _touches_memory(instruction) or _READS_ONLY.fullmatch(instruction.mnemonic):
        return False
    return instruction.target is None and _MEMORY.search(operands[-1]) is not None


def _reads(instruction: Instruction) -> bool:
    if not _touches_memory(instruction) or instruction.target is not None:
        return False
    is_store_alone = _writes(instruction) and _MOVE.fullmatch(instruction.mnemonic) is not None
    return not is_store_alone


def _converts_one(instruction: Instruction, before: Instruction | None) -> bool:
    """Whether it converts one number: by its name, or since the value before it was put there alone.

    A half-precision number has no conversion of its own before AVX512-FP16: one is moved to a vector register, and the
    packed conversion is used for it.
    """
    if _ONE_NUMBER.fullmatch(instruction.mnemonic):
        return True
    if not _PACKED_HALF.fullmatch(instruction.mnemonic) or width_of(instruction) is not Width.BITS_128:
        return False
    return before is not None and re.fullmatch(r"v?movd|v?pinsrw", before.mnemonic) is not None


def _operands(text: str) -> list[str]:
    """Operands apart; commas inside of brackets belong to an address."""
    return [part.strip() for part in re.split(r",(?![^(]*\))", text) if part.strip()]
