"""The similarity of two pieces of code, regardless of names.

| module | owns |
|---|---|
| `similarity` | shingles of tokens, and a hash that renaming does not change |
| `minhash` | shingles as hashes, and MinHash signatures of them |
| `containment` | which files contain functions of which others, and which code is all in another |
"""
