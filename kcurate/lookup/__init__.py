"""Answers about what is here; nothing is written.

| module | what |
|---|---|
| `doctor` | what this machine can do |
| `listing` | what a workspace holds |
| `show` | a pair with its verdicts, or an extracted kernel, by id or path |
"""
