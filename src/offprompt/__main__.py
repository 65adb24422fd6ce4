"""`python -m offprompt`: the command line."""

import sys

from offprompt.cli import main

if __name__ == "__main__":
    sys.exit(main())
