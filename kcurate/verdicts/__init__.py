"""Stored verdicts: their keys, the ledger that writes them, and which one counts for a pair.

| module | what |
|---|---|
| `items` | a verdict as an item in the summary of a command |
| `keys` | the key of a verdict |
| `ledger` | writes verdicts and finds them again |
| `naive` | the speedup over the naive variant in a suite |
| `readable` | pairs with their verdicts, for stages that report unreadable files and continue |
| `standing` | which verdicts a pair has, and which of them counts |
"""
