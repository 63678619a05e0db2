"""`kcurate verify-dataset`: judges published rows again."""
