"""Profiles: counters, what Nsight Compute prints, profiles on file, which counters a technique moves."""
