"""A draft as a file that a person or a model completes: `problem.toml` beside the kernel.

| where | what |
|---|---|
| `toml_writer` | the file's text, with a comment on everything guessed or open |
| `toml_reader` | the problem in a file, and what is open or wrong, by line |
| `open_places` | the open places one by one, filled in with answers |

Not covered: whether the problem in a file is admitted (`kcurate.draft.trying`).
"""
