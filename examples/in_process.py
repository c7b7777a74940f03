"""Three requests in one running batch, in this process and without a server.

The backend needs no model; put `LlamaCppBackend` in its place to compute. A stream gives token ids as they come.
"""

from arriero import Dedicated, Engine, SyntheticBackend, SyntheticOptions


def main() -> None:
    """Submit three prompts, read one as a stream, wait for the others."""
    engine = Engine(SyntheticBackend(SyntheticOptions(num_sequences=4)))
    engine.start(Dedicated())

    streamed = engine.submit([1, 2, 3], max_tokens=8, want_stream=True)
    waited = engine.submit([4, 5], max_tokens=4)
    cancelled = engine.submit([6], max_tokens=1_000)
    cancelled.cancel()

    if streamed.stream is not None:
        for tokens in streamed.stream:
            print("streamed", *tokens)
    for name, handle in (("streamed", streamed), ("waited", waited), ("cancelled", cancelled)):
        result = handle.wait(timeout_s=10)
        print(f"{name}: {result.reason}, {result.num_decoded} tokens")

    engine.shutdown()
    engine.join(timeout_s=10)


if __name__ == "__main__":
    main()
