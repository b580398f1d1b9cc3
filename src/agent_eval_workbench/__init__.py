"""What a person does at a desk, not in CI: make and change eval cases, calibrate judges, export results.

The gate (`agent_eval`) never imports this package; its command line calls the commands by name.
"""
