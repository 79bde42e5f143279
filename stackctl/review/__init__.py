"""Tell a reviewer what a change does to a stack: the engine's preview, policies, cost and quotas as one Markdown comment.

`collect` and `command` need installed packages. All else needs the standard library alone, because `workflow` runs where a
fork's pull request is commented on: with the right to write, nothing is installed.
"""
