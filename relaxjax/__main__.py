"""`python -m relaxjax` is the command `relaxjax`."""

import sys

from relaxjax.cli import main

if __name__ == "__main__":
    sys.exit(main())
