"""How alike two pieces of code are, whatever their names.

| module | owns |
|---|---|
| `similarity` | shingles of tokens, and a hash of a file that renaming keeps |
| `minhash` | shingles as hashes, and MinHash signatures of them |
| `containment` | which files hold a function of which others, and which code stands in another as a whole |
"""
