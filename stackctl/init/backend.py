"""Select Pulumi's state backend for a new stack, and its secrets' key."""

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

# A bucket of another account, or one without permissions, is not usable either.
_NO_PLACE = ("404", "NoSuchBucket", "NotFound", "NotFoundException", "403", "AccessDenied", "AccessDeniedException")


class NoBackend(Failure):
    """The stack has no state backend, or cannot be created in it. The text has the remedy."""

    exit_code = NOT_TRIED


def log_in(readers: Readers, who: Caller, say: Callable[[str], None]) -> None:
    """Log Pulumi in to the account's own bucket, if it exists.

    A backend that the environment names has precedence. Raises NoBackend if the bucket does not exist and Pulumi is not
    logged in.
    """
    named = os.environ.get("PULUMI_BACKEND_URL")
    bucket = state_bucket(who.account, readers.region)
    if named:
        # The URL of a database has a password in it.
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

    Its file had the key of its secrets. With a new file, which has no key, `pulumi preview` asks for a passphrase.
    """
    if pulumi_program.ask(["stack", "select", name, "--non-interactive"]).returncode == 0:
        raise NoBackend(
            f"the stack {name} is in Pulumi's state already, and {stack_file(name)}, which has the key of its secrets, is "
            f"not here: bring that file back, choose another name, or remove the stack with `pulumi stack rm {name}`, which "
            "refuses one that has resources, and run the same command again"
        )


def make_stack(name: str, readers: Readers) -> None:
    """Create the stack in Pulumi's state. Raises NoBackend.

    Its secrets use the account's key if it exists.
    """
    key = f"alias/{SECRETS_ALIAS}"
    own = _there(lambda: readers("kms").describe_key(KeyId=key))
    provider = ["--secrets-provider", f"awskms://{key}?region={readers.region}"] if own else []
    command = ["stack", "init", name, *provider]
    # On the terminal, because without a key Pulumi may ask for a passphrase.
    if pulumi_program.run(command) != 0:
        raise NoBackend(
            f"the stack file is written; `pulumi {shlex.join(command)}`, which says above why it failed, is left to be done"
        )


def _there(ask: Callable[[], object]) -> bool:
    return or_none(ask, *_NO_PLACE) is not None
