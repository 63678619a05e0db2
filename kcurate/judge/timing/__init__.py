"""From samples to a speedup: blocks, statistics, calibration, bandwidth floor, decision."""
