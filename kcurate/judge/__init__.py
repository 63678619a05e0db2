"""Candidate in, `Verdict` out: the one place that decides."""
