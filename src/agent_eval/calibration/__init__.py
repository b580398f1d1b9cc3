"""`agent-eval calibrate`: how far the judges agree with labels of people."""
