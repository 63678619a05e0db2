"""Many candidates at once: judging processes on this machine, or actors on a Ray cluster."""
