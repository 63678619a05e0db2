"""`kcurate report`: pairs and their verdicts as one HTML file that needs no network.

| module | owns |
|---|---|
| `entries` | what the page knows of a pair: a line of the table, and its part |
| `scale`, `plots` | the summary plots, drawn as SVG that follows light and dark |
| `page` | the file: data, plots and `assets/` (style, table, diff, parts) put together |
| `stage` | the command |

Everything that was written by others (code, names, logs) reaches the page as data and is shown as text, never
as markup. Not covered: the table of the built-in pairs (`kcurate.gallery`).
"""
