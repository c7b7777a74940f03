"""The servers that are known by name: how each is started, when it answers, and what has to be said to it.

Every command gets the same model file, threads, slots and KV cells, so that a comparison compares servers. What a
server does beside that is its own affair and its own default, unless it would spoil the figures:

    llama-server      `cache_prompt: false` in each request: the rounds repeat no prompt, and looking for one costs
    llama-cpp-python  takes text only, and refuses a request id that is no UUID; by default a new request interrupts
                      the one that runs, and penalties are on
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from arriero.bench.prompts import PromptForm
from arriero.bench.servers_commands import ServerCommand, version_words

_BINDING: Final = "from importlib.metadata import version; print('llama-cpp-python', version('llama-cpp-python'))"
"""Python that prints the version of the binding, and with it of llama.cpp."""


class Peer(StrEnum):
    """A server known by name."""

    ARRIERO = "arriero"
    LLAMA_SERVER = "llama-server"
    LLAMA_CPP_PYTHON = "llama-cpp-python"


def arriero(binary: str | None = None) -> ServerCommand:
    """This project's server, from this interpreter unless a program is named."""
    program = ("{python}", "-m", "arriero") if binary is None else (binary,)
    return ServerCommand(
        name=Peer.ARRIERO,
        words=(
            *program, "serve", "--model", "{model}", "--host", "{host}", "--port", "{port}",
            "--sequences", "{slots}", "--ctx-size", "{context}", "--threads", "{threads}", "--log-level", "warning",
        ),
        version=("{python}", "-c", _BINDING) if binary is None else version_words(binary),
    )  # fmt: skip


def llama_server(binary: str | None = None) -> ServerCommand:
    """The server of llama.cpp, from the search path unless a program is named."""
    return ServerCommand(
        name=Peer.LLAMA_SERVER,
        words=(
            binary or Peer.LLAMA_SERVER, "-m", "{model}", "--host", "{host}", "--port", "{port}",
            "-np", "{slots}", "-c", "{context}", "-t", "{threads}", "--no-webui",
        ),
        body=MappingProxyType({"cache_prompt": False}),
        version=version_words(binary or Peer.LLAMA_SERVER),
    )  # fmt: skip


def llama_cpp_python(binary: str | None = None) -> ServerCommand:
    """The server inside the package `llama-cpp-python`, from this interpreter unless another one is named.

    It has one sequence, so slots mean nothing to it, and a KV cell of another slot would be of no use.
    """
    return ServerCommand(
        name=Peer.LLAMA_CPP_PYTHON,
        words=(
            binary or "{python}", "-m", "llama_cpp.server", "--model", "{model}", "--host", "{host}",
            "--port", "{port}", "--n_ctx", "{slot_context}", "--n_threads", "{threads}",
            "--n_threads_batch", "{threads}", "--logits_all", "false", "--interrupt_requests", "false",
            "--verbose", "false",
        ),
        health="/v1/models",
        body=MappingProxyType({"repeat_penalty": 1.0, "top_k": 1, "min_p": 0.0}),
        prompt_form=PromptForm.TEXT,
        takes_request_ids=False,
        version=(binary or "{python}", "-c", _BINDING),
    )  # fmt: skip


PEERS: Final[Mapping[Peer, Callable[[str | None], ServerCommand]]] = MappingProxyType({
    Peer.ARRIERO: arriero,
    Peer.LLAMA_SERVER: llama_server,
    Peer.LLAMA_CPP_PYTHON: llama_cpp_python,
})
