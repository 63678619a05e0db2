"""Read-only questions about this machine and a workspace.

| module | what |
|---|---|
| `doctor` | what this machine can do |
| `listing` | what a workspace holds |
| `show` | a pair with its verdicts, or an extracted kernel, by id or path |
"""
