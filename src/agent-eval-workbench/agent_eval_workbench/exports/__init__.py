"""A run's results as documents for other tools, written or sent. Import the modules."""
