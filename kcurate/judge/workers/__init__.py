"""Worker processes, the judge's end: start, ask, kill. `inside/` runs in the workers themselves."""
