"""`kcurate verify-dataset`: published rows judged again."""
