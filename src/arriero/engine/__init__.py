"""Own a backend and a scheduler, and run them."""
