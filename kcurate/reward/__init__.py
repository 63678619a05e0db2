"""A completion becomes a reward: read, judged, scored."""
