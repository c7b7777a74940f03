"""ModelFacts: what a GGUF file holds, by its own header; the same words in every result that names a model."""

import msgspec

from arriero.record.strict import Count, Name, Positive, Sha256


class TensorTypeFacts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All tensors of one type.

    Attributes:
        type: by ggml's name, such as `Q4_0`.
        num_tensors: how many.
        num_weights: in them.
        bytes: that they take, padding left out.
    """

    type: Name
    num_tensors: Positive
    num_weights: Positive
    bytes: Positive


class FallbackFacts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Tensors whose rows do not fill whole blocks of the declared format, so that another type takes its place.

    Attributes:
        type: that they have.
        instead_of: the types of the declared format that fall back to it.
        row_length: weights in a row.
        block_length: weights in a block of the declared format's types.
        num_tensors: how many.
    """

    type: Name
    instead_of: tuple[str, ...]
    row_length: Positive
    block_length: Positive
    num_tensors: Positive


class ModelFacts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One model file.

    Attributes:
        file: its base name.
        bytes: its size.
        sha256: of its content.
        gguf_version: of the file format.
        architecture: by llama.cpp's name.
        name: that the file gives the model.
        num_parameters: weights in all tensors.
        declared_format: what the file says of itself.
        tensor_types: what its tensors really are, most bytes first.
        fallbacks: why some of them are not of the declared format.
        trained_context: tokens of context.
        vocab_size: tokens that the vocabulary has.
        num_layers: transformer blocks.
        embedding_length: width of a row between two blocks.
        reasons: name of a field that is null -> why.
    """

    file: Name
    bytes: Positive
    sha256: Sha256
    gguf_version: Positive
    architecture: str | None
    name: str | None
    num_parameters: Count
    declared_format: str | None
    tensor_types: tuple[TensorTypeFacts, ...]
    fallbacks: tuple[FallbackFacts, ...]
    trained_context: int | None
    vocab_size: int | None
    num_layers: int | None
    embedding_length: int | None
    reasons: dict[str, str]

    @property
    def tensor_bytes(self) -> int:
        """Of all tensors: about what a decode step reads, but for the embedding rows that it does not need."""
        return sum(each.bytes for each in self.tensor_types)
