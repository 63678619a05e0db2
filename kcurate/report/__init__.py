"""`kcurate report`: pairs and their verdicts as one self-contained HTML file.

| module | owns |
|---|---|
| `entries` | a pair's data for the page: its line in the table, and its details |
| `stage` | the command; the file from figures, data and `assets/` (style, table, plot, diff, parts) |
| `settings` | the settings of `kcurate report` |

Untrusted text (code, names, logs) enters the page as data and is shown as text, never as markup. Not
covered: the table of the built-in pairs (`tools/gallery.py`).
"""
