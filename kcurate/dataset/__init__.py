"""Judged pairs as a Hugging Face dataset on disk. Not covered yet: anything that leaves this machine."""
