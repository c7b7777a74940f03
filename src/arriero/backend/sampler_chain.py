"""LlamaSampler: one chain of llama.cpp's samplers for one request.

    logit bias -> penalties -> top-k -> top-p -> min-p -> temperature -> draw     (temperature 0: ... -> first maximum)

A link that would change nothing is left out. The chain keeps the request's random state and, for penalties, its last
tokens, the prompt's among them, as llama.cpp's own server counts. It belongs to the request and not to a sequence, so
a preempted request draws on where it stopped, and the same seed gives the same text whatever the batch.
"""

import ctypes
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from arriero.backend.library import Library
from arriero.core.errors import EngineFault
from arriero.core.ids import TokenId
from arriero.core.request import Request, SamplingParams

WHOLE_SEQUENCE: Final = -1
LARGEST_SEED: Final = 2**32 - 2  # llama.cpp takes the next one as the wish for a random seed
CANDIDATE: Final = np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)])  # llama_token_data


class SamplerLibrary:
    """What the chains of one context share: llama.cpp's functions, and one array of candidates, used one at a time."""

    def __init__(self, library: Library, vocab_size: int, sequence_limit: int) -> None:
        """Allocate the candidates: 12 bytes for each token of the vocabulary."""
        self.library = library
        self.vocab_size = vocab_size
        self.sequence_limit = sequence_limit
        untouched = np.zeros(vocab_size, CANDIDATE)
        untouched["id"] = np.arange(vocab_size)
        self._candidates = np.empty_like(untouched)
        # as bytes: numpy copies structures element by element, 14 times as slowly
        self._bytes = (untouched.view(np.uint8), self._candidates.view(np.uint8))
        self._array: Any = library.structs.llama_token_data_array()
        kind = dict(library.structs.llama_token_data_array._fields_)["data"]
        self._data: Any = ctypes.cast(self._candidates.ctypes.data, kind)
        self._apply: Any = library.short("llama_sampler_apply")
        self._accept: Any = library.short("llama_sampler_accept")

    def sample(self, chain: int, logits: NDArray[np.float32]) -> TokenId:
        """Run a chain over a row of logits and let it remember what it chose.

        Raises:
            EngineFault: the chain chose nothing.
        """
        untouched, candidates = self._bytes
        np.copyto(candidates, untouched)  # a chain sorts and cuts the array
        self._candidates["logit"] = logits
        array = self._array
        array.data = self._data
        array.size = self.vocab_size
        array.selected = -1
        array.sorted = False
        self._apply(chain, ctypes.byref(array))
        selected: int = array.selected
        if not 0 <= selected < array.size:
            raise EngineFault("the sampler chain left no token to choose", code="sampler_failed")
        token = int(array.data[selected].id)
        self._accept(chain, token)
        return token

    def accept(self, chain: int, tokens: tuple[TokenId, ...]) -> None:
        """Let a chain remember tokens that it did not choose."""
        for token in tokens:
            self._accept(chain, token)


class LlamaSampler:
    """The sampler of one request; used by the thread that owns the context."""

    def __init__(self, shared: SamplerLibrary, request: Request, end_tokens: frozenset[TokenId]) -> None:
        """Build the chain and let it see the prompt.

        Raises:
            EngineFault: llama.cpp could not make a link.
        """
        self._shared = shared
        self._end_tokens = np.array(sorted(end_tokens | request.end_tokens), np.int64)
        library = shared.library
        parameters = library.long("llama_sampler_chain_default_params")()
        self._chain: int = library.short("llama_sampler_chain_init")(parameters)
        add = library.short("llama_sampler_chain_add")
        for link in _links(shared, request.sampling):
            if not link:
                raise EngineFault("llama.cpp could not make a sampler", code="sampler_failed")
            add(self._chain, link)
        if request.sampling.has_penalties and (looks_back := _looks_back(shared, request.sampling)):
            shared.accept(self._chain, tuple(request.prompt[-looks_back:]))

    def sample(self, logits: NDArray[np.float32], *, ban_end_tokens: bool) -> TokenId:
        """Choose a token and remember it; overwrites the logits of end tokens if these are banned."""
        if ban_end_tokens:
            logits[self._end_tokens] = -np.inf
        return self._shared.sample(self._chain, logits)

    def close(self) -> None:
        """Free the chain and its links; once."""
        self._shared.library.short("llama_sampler_free")(self._chain)


def _links(shared: SamplerLibrary, params: SamplingParams) -> Iterator[int | None]:
    """The links that change something, in the order of the module's drawing; the chain frees them."""
    short = shared.library.short
    if params.logit_bias:
        kind: Any = shared.library.structs.llama_logit_bias
        biases = (kind * len(params.logit_bias))(*(kind(token, bias) for token, bias in params.logit_bias))
        yield short("llama_sampler_init_logit_bias")(shared.vocab_size, len(biases), biases)
    if params.has_penalties:
        yield short("llama_sampler_init_penalties")(
            shared.vocab_size,
            _looks_back(shared, params),
            params.repeat_penalty,
            params.frequency_penalty,
            params.presence_penalty,
        )
    if params.temperature == 0:
        yield short("llama_sampler_init_greedy")()
        return
    if params.top_k > 0:
        yield short("llama_sampler_init_top_k")(params.top_k)
    if params.top_p < 1:
        yield short("llama_sampler_init_top_p")(params.top_p, params.min_keep)
    if params.min_p > 0:
        yield short("llama_sampler_init_min_p")(params.min_p, params.min_keep)
    if params.temperature != 1:
        yield short("llama_sampler_init_temp")(params.temperature)
    yield short("llama_sampler_init_dist")(min(params.seed, LARGEST_SEED))


def _looks_back(shared: SamplerLibrary, params: SamplingParams) -> int:
    """How many of the last tokens penalties look at."""
    return shared.sequence_limit if params.penalty_last_n == WHOLE_SEQUENCE else params.penalty_last_n
