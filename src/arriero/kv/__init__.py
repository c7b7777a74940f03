"""Who owns which KV memory: the books, never the bytes."""
