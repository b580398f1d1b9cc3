"""Commands for a person at a desk, not for CI: make and change eval cases, calibrate judges, export results.

The gate (`agent_eval`) never imports this package; its command line calls the commands by name.
"""
