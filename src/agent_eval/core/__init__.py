"""What every room may know: content and invocation types, problems, masking, text limits."""
