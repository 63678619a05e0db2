"""The contents of input buffers: seeded generators, by name."""
