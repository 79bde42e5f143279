"""Cases of policies about tags and budgets."""

from tests.policies.case import ABSENT, Case, fail, made
from triton_policies.governance import BUDGET
from triton_policies.nodes import NODE_CLASS, TEMPLATE

_TAGS = {"project": "triton-eks", "environment": "prod", "owner": "ml-platform", "cost-center": "inference"}

CASES = (
    Case(
        policy="tags-required",
        type="aws:sqs/queue:Queue",
        passes={"tags": _TAGS},
        fails=(
            fail(
                {"tags": ABSENT},
                (
                    "it: tags: has no project, environment, owner, cost-center: nobody can be asked about it, and "
                    "no budget counts it. "
                    "Fix: set tags project, environment, owner and cost-center"
                ),
            ),
            fail(
                {"tags.owner": ABSENT, "tags.cost-center": ABSENT},
                (
                    "it: tags: has no owner, cost-center: nobody can be asked about it, and no budget counts it. "
                    "Fix: set tags project, environment, owner and cost-center"
                ),
            ),
            fail(
                {"tags.environment": "staging"},
                "it: tags.environment: is staging, and the stack is prod. Fix: set it to prod",
            ),
        ),
        unknown="tags",
    ),
    Case(
        policy="tags-required",
        type=TEMPLATE,
        passes={
            "tags": _TAGS,
            "tagSpecifications": [{"resourceType": "instance", "tags": _TAGS}, {"resourceType": "volume", "tags": _TAGS}],
        },
        fails=(
            fail(
                {"tagSpecifications[1]": ABSENT},
                (
                    "it: tagSpecifications: has no volume: each volume that it launches is nobody's. "
                    "Fix: set tags project, environment, owner and cost-center"
                ),
            ),
            fail(
                {"tagSpecifications[0].tags.owner": ABSENT},
                (
                    "it: tagSpecifications[0].tags: has no owner: nobody can be asked about it, and no budget "
                    "counts it. "
                    "Fix: set tags project, environment, owner and cost-center"
                ),
            ),
        ),
        unknown="tagSpecifications",
    ),
    Case(
        policy="tags-required",
        type=NODE_CLASS,
        passes={"spec": {"tags": _TAGS}},
        fails=(
            fail(
                {"spec.tags": ABSENT},
                (
                    "it: spec.tags: has no project, environment, owner, cost-center: nobody can be asked about it, "
                    "and no budget counts it. "
                    "Fix: set tags project, environment, owner and cost-center"
                ),
            ),
        ),
        unknown="spec.tags",
    ),
    Case(
        policy="lasting-protected",
        type="aws:ec2/vpc:Vpc",
        passes={},
        fails=(
            fail(
                {},
                "it: is not protected: one change that replaces it, and what is in it is gone. Fix: give it protect=True",
                options={"protect": False},
            ),
        ),
        unknown=None,
        options={"protect": True},
    ),
    Case(
        policy="budget-present",
        type="",
        passes=(made(BUDGET, "monthly"), made("aws:ec2/vpc:Vpc", "vpc")),
        fails=(
            fail(
                {"monthly": ABSENT},
                (
                    "the stack has no budget: the first that anyone hears of a runaway is the invoice. "
                    "Fix: make an aws.budgets.Budget with a subscriber"
                ),
            ),
        ),
        unknown=None,
    ),
)
