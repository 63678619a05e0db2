"""The code of worker processes, which runs beside a candidate's code and makes no pass/fail decision.

| module | what |
|---|---|
| `arena` | one allocation in which a side's buffers lie at unpredictable places |
| `bench_slots` | runs at a bench size in a worker |
| `execute` | a bound program on a device |
| `input_sets` | one input set of a side at a bench size |
| `isolation` | the sandbox of a worker, entered before it handles a candidate's code |
| `landlock` | Linux's Landlock: restricts files, TCP and signals |
| `main` | the nursery's loop, which forks workers, and a worker's loop, which answers |
| `mounts` | a mount namespace in which only some folders exist |
| `profiled` | the process under a profiler |
| `sampler` | timing in a worker |
| `side_server` | the worker's end of one side: load it, generate inputs, run it, send outputs |
"""
