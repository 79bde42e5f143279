"""Show a reviewer the effects of a change on a stack, as a Markdown comment.

The comment has the engine's preview, the policy results, cost and quotas. `collect`, `command`, `preview`, `changes` and
`redaction` need installed packages. All other modules need only the standard library. `workflow` comments on pull
requests of forks with write permission, so nothing is installed for it.
"""
