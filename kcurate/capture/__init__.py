"""`kcurate capture`: what a running CUDA program launches, on what, written down and described."""
