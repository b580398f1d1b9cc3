"""See README.md beside this package."""
