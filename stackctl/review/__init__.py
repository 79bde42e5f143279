"""What a reviewer is told of a change of a stack: the engine's preview, policies, cost and quotas as one Markdown comment.

`collect` needs the project's Python environment. Everything else here needs the standard library alone, because it also runs
where a fork's pull request is commented on: there, with the right to write, nothing shall be installed.
"""
