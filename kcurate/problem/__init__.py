"""Problems and plans: expressions, input generators, plan checks, comparison. No GPU, no timing."""
