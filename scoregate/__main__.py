"""`python -m scoregate`."""

from scoregate.cli import main

main()
