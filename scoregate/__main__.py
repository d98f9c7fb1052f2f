"""`python -m scoregate`."""

from scoregate.light import main

main()
