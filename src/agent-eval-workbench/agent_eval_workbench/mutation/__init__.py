"""What eval cases would miss: stored conversations with mistakes, scored again by the cases' own criteria."""
