"""``python -m weft``: the command ``weft`` of this Python, also where the folder of scripts is not on the path."""

import sys

from weft.tools.cli import main

if __name__ == "__main__":
    sys.exit(main())
