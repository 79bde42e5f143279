"""Existing resources that a stack uses: facts read from AWS, and the problems that they cause for the stack."""
