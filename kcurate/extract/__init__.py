"""The stage `extract`: a source tree in, self-contained kernels and natural pairs out."""
