"""`python -m arriero`: the same as `arriero`."""

import sys

from arriero.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
