"""Machines that can run device code, behind one protocol (`kcurate.backends.base`)."""
