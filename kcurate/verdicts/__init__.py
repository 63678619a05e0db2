"""Verdicts on file: the protocol version, the ledger that writes them, and which one stands for a pair."""
