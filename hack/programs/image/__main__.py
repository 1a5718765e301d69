"""Runs `hack/image`."""

import sys

from . import main, parser

if __name__ == "__main__":
    sys.exit(main(parser().parse_args()))
