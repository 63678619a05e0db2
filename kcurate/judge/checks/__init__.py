"""Static checks: what a side's source, plan and binary may not contain. Nothing runs here."""
