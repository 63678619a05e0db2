"""Makes slow variants of fast kernels, each without one technique: same function, same signature."""
