"""Words for errors, as tables of outcomes show them."""

from arriero.core.errors import ArrieroError


def error_word(error: ArrieroError) -> str:
    """The class of an error as a word: `QueueFull` becomes `queue_full`."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in type(error).__name__).lstrip("_")
