"""Many candidates at once: judging processes on this machine, or actors of a Ray cluster."""
