"""Documents and pictures of the CPU lab's results."""
