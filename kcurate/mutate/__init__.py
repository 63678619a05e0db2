"""Changes to a side, wrong and harmless, to test the judge with."""
