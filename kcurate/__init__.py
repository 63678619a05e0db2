"""kcurate curates slow/fast CUDA kernel pairs: extract, deoptimise, prove, publish, train."""

__version__ = "0.1.0"
