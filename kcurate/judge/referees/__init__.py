"""Many candidates at once: judging processes on this machine, or actors on a Ray cluster.

| module | what |
|---|---|
| `batch` | referees here or on a Ray cluster, and a list of candidates judged by them |
| `local` | referees |
| `ray_cluster` | referees on a Ray cluster |
"""
