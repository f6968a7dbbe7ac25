"""``python -m weft.tools``: the command ``weft`` from a checkout that is not installed."""

import sys

from weft.tools.cli import main

if __name__ == "__main__":
    sys.exit(main())
