"""Changes to a side: mistakes to test the judge with, and parts that a slow side may not need."""
