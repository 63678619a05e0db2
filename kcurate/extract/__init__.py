"""The `extract` stage: source trees in, self-contained kernels and natural pairs out."""
