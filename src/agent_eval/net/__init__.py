"""What all connections to services have in common: retries, statuses, and one bounded exchange."""
