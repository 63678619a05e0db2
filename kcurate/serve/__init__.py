"""The judge over HTTP: tasks, answers to judge, jobs that survive a restart. Its client is `kcurate.client`.

| module | owns |
|---|---|
| `catalog` | the tasks of a server, and problems of its callers |
| `job_log` | jobs on disk |
| `desk` | jobs under way: taken, judged once, ended |
| `guard` | who may ask, and how large a request is |
| `app` | the endpoints |
| `stage` | starting and stopping |
| `settings` | the settings of `kcurate serve` |
"""
