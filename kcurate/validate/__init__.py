"""The validate stage: judges the candidates in pair folders."""
