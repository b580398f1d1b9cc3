"""A report becomes text: `views` say what, `markup` makes it safe, `renderers` write it. `exports`: for other tools.

`progress` shows the progress of a run.
"""
