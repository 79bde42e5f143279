"""The door through which the Pulumi engine enters the program."""

from infra.app import main

main()
