"""`python -m agent_eval`: what `entrypoint` starts."""

import sys

from agent_eval.cli import main

sys.exit(main())
