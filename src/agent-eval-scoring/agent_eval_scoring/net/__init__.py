"""What all connections to services have in common: retries, statuses, proxies, and one bounded exchange."""
