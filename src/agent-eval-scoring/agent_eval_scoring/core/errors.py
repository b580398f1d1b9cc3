"""The root of all exceptions that this project defines."""


class AgentEvalError(Exception):
    """Something that this project reports by an exception.

    Those of `agent_eval.api` are documented in docs/python-api.md; all others are caught before they reach a user of
    it, who needs this class only to tell ours from those of the agent's and of libraries.
    """
