"""What several packages need: text, problems, files, limits."""
