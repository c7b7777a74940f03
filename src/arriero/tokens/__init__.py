"""Text and token ids, both ways."""
