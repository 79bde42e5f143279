"""Bind the deploy role's actions to the tag `project`, on what there is already or on what is being made."""

from __future__ import annotations

from spec.versions import PROJECT

OURS = {"StringEquals": {"aws:ResourceTag/project": PROJECT}}
"""A condition: the resource that is changed carries our tag."""
MADE_OURS = {"StringEquals": {"aws:RequestTag/project": PROJECT}}
"""The request gives it our tag. Alone it is no bound on what may be tagged, a stranger's included."""
