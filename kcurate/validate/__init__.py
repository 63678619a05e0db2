"""The validate stage: candidates in pair folders become verdicts."""
