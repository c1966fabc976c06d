"""`python -m relaxjax.tvm`: programs and tests that are written for TVM, run as they stand."""

import sys

from .runner import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
