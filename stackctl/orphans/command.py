"""Run `stackctl orphans`."""

from __future__ import annotations

from botocore.exceptions import BotoCoreError, ClientError

from console.terminal import output, print_json
from spec.failure import FAILED
from stackctl.account.guard import caller, require_account
from stackctl.account.read_only import AwsUnusable, Readers, is_denied
from stackctl.cost import prices
from stackctl.orphans.find import leftovers
from stackctl.orphans.operations import OPERATIONS
from stackctl.orphans.report import document, show
from stackctl.orphans.search import Search
from stackctl.stack_settings import settings_of


def orphans(stack: str, *, as_json: bool) -> int:
    """Print the remaining AWS resources of a stack; return FAILED if there are some.

    Otherwise return 0. Raises Failure.
    """
    settings = settings_of(stack)
    readers = Readers(settings.region, OPERATIONS)
    table = prices.load(settings.region)
    who = caller(readers)
    require_account(who, settings)
    try:
        found = leftovers(Search.of(settings, readers, table))
    except ClientError as error:
        actions = readers.actions_of(error.operation_name)
        needs = f"the credentials need {actions}: docs/teardown.md has the whole policy" if is_denied(error) else str(error)
        raise AwsUnusable(f"the search is not complete: {needs}") from None
    except BotoCoreError as error:
        raise AwsUnusable(f"the search is not complete: {error}") from None
    if as_json:
        print_json({"stack": stack, "account": who.account, "region": settings.region, **document(found)})
    else:
        show(stack, found, table, output())
    return FAILED if found else 0
