"""The judge over HTTP: tasks, answers to judge, jobs that survive a restart. Its client is `kcurate.client`.

| module | owns |
|---|---|
| `catalog` | the tasks of a server, and problems sent by its callers |
| `job_log` | jobs on disk |
| `desk` | jobs in memory: accepted, judged once, ended |
| `app` | the endpoints |
| `stage` | starting and stopping; who may send requests, and how large they may be |
| `settings` | the settings of `kcurate serve` |
"""
