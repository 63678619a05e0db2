"""Stored verdicts: their keys, the ledger that writes them, and which one counts for a pair."""
