"""One module for each command. Each has `execute(arguments, io)`, which runs the command and returns its exit code."""

from agent_eval.commands._io import CliIO
