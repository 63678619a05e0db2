"""Worker processes as the judge sees them: started, asked, killed. `inside/` runs in the worker itself."""
