"""A report becomes text: `views` say what, `markup` makes it safe, `renderers` write it. `exports`: for other tools."""
