"""Runs an agent in its own interpreter, and reports to the gate (docs/host-protocol.md).

This package is all of ours that runs in the agent's environment. It needs Python 3.10, the standard library and
google-adk 1.18 or newer, and does not import agent_eval. It loads the agent like `adk eval` and `adk web`, runs its
sessions and forwards ADK's raw events. The gate interprets the events, so that every version of ADK is scored alike. In
the role `metrics` it runs the functions of `custom_metrics` instead, as ADK does; with the role `functions` those of
agents-cli's, without google-adk.
"""
