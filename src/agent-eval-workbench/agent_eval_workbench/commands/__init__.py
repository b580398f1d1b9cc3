"""One module for each command. Each has `execute(arguments, io)`, which runs the command and returns its exit code."""
