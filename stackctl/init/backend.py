"""Where Pulumi keeps the state of a new stack, and the key of the secrets in it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable

from console import pulumi_program
from spec.failure import NOT_TRIED, Failure
from spec.names import SECRETS_ALIAS, state_bucket
from spec.stack_names import stack_file
from stackctl.account.guard import Caller
from stackctl.account.read_only import Readers, or_none
from stackctl.review.redaction import redacted

# Another account's bucket of that name, or rights that are missing, are no place for a state either.
_NO_PLACE = ("404", "NoSuchBucket", "NotFound", "NotFoundException", "403", "AccessDenied", "AccessDeniedException")


class NoBackend(Failure):
    """There is no place for the state of a stack, or the stack cannot be made in it; the text says what to do."""

    exit_code = NOT_TRIED


def log_in(readers: Readers, who: Caller, say: Callable[[str], None]) -> None:
    """Log Pulumi in to the account's own bucket, if it has one, unless the environment names another place.

    Raises NoBackend where there is neither such a bucket nor another place that Pulumi is logged in to.
    """
    named = os.environ.get("PULUMI_BACKEND_URL")
    bucket = state_bucket(who.account, readers.region)
    if named:
        # That of a database has a password in it.
        say(f"Pulumi's state is in {redacted(named)} (PULUMI_BACKEND_URL)")
    elif _there(lambda: readers("s3").head_bucket(Bucket=bucket, ExpectedBucketOwner=who.account)):
        url = f"s3://{bucket}?region={readers.region}"
        done = pulumi_program.ask(["login", url])
        if done.returncode != 0:
            raise NoBackend(f"`pulumi login '{url}'` ended with an error: {done.stderr.strip()}")
        say(f"Pulumi's state is in {url}")
    elif pulumi_program.ask(["whoami", "--non-interactive"]).returncode == 0:
        say(f"Pulumi's state is where you are logged in (`pulumi whoami --verbose`): there is no bucket {bucket}")
    else:
        raise NoBackend(
            f"there is no place for Pulumi's state: account {who.account} has no bucket {bucket}, and Pulumi is logged in "
            f"nowhere. `make state REGION={readers.region}` makes that bucket and a key, once per account and region; "
            "or log in to a place of yours (`pulumi login`). Then run the same command again"
        )


def require_new(name: str) -> None:
    """Refuse a stack that is in Pulumi's state. Raises NoBackend.

    Its file had the key of its secrets: with a new one, which has none, `pulumi preview` asks for a passphrase.
    """
    if pulumi_program.ask(["stack", "select", name, "--non-interactive"]).returncode == 0:
        raise NoBackend(
            f"the stack {name} is in Pulumi's state already, and {stack_file(name)}, which has the key of its secrets, is "
            f"not here: bring that file back, choose another name, or remove the stack with `pulumi stack rm {name}`, which "
            "refuses one that has resources, and run the same command again"
        )


def make_stack(name: str, readers: Readers) -> None:
    """Make the stack in Pulumi's state, with the account's key for its secrets if there is one. Raises NoBackend."""
    key = f"alias/{SECRETS_ALIAS}"
    own = _there(lambda: readers("kms").describe_key(KeyId=key))
    provider = ["--secrets-provider", f"awskms://{key}?region={readers.region}"] if own else []
    command = ["stack", "init", name, *provider]
    # On the terminal: without a key, Pulumi may ask for a passphrase.
    if pulumi_program.run(command) != 0:
        raise NoBackend(
            f"the stack file is written; `pulumi {shlex.join(command)}`, which says above why it failed, is left to be done"
        )


def _there(ask: Callable[[], object]) -> bool:
    return or_none(ask, *_NO_PLACE) is not None
