"""Datasets on the Hugging Face Hub.

| module | what |
|---|---|
| `repository` | list, commit, tag, download |
| `published_rows` | rows of a published dataset, read back as pairs |
"""
