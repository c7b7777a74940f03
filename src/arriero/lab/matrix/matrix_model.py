"""MatrixModel: one model file of a matrix, found and hashed."""

from pathlib import Path
from typing import NamedTuple


class MatrixModel(NamedTuple):
    """One model file.

    Attributes:
        model_id: its name in this matrix.
        path: where it is now.
        quantization: as the configuration states it, else as the file declares it.
        sha256: of its content.
        num_bytes: its size.
    """

    model_id: str
    path: Path
    quantization: str
    sha256: str
    num_bytes: int
