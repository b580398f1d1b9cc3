"""What `accept` and `edit` do to eval cases. Import the modules."""
