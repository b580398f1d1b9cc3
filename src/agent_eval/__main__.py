"""`python -m agent_eval`."""

import sys

from agent_eval.cli import main

if __name__ == "__main__":
    sys.exit(main())
