"""Worker processes, the judge's end: start, ask, kill. `inside/` runs in the workers themselves.

| module | what |
|---|---|
| `compiling` | compiles both sides of a candidate at once, each in its own compile worker |
| `inside/` | the code of worker processes, which runs beside a candidate's code |
| `messages` | the worker protocol |
| `nursery` | worker processes, the judge's end |
| `own_lines` | compiler logs as they may leave this machine |
| `protocol` | frames between the judge and a worker: JSON and raw bytes, never pickle |
| `requests` | what a judge asks of a worker, and what the worker answers |
| `side_proxy` | the judge's end of a run worker that holds one side |
| `spares` | the pool of run workers of one judge |
| `timing_requests` | what a judge asks of a worker in order to time its side, and the answers |
"""
