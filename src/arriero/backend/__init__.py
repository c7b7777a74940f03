"""Execute a plan, verbatim, and say what happened."""
