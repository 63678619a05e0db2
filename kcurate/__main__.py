"""`python -m kcurate` is the same as the `kcurate` command."""

from kcurate.cli import main

if __name__ == "__main__":
    main()
