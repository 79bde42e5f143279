"""The error for an invalid option of `modelctl rollout`, `watch` or `compare`."""

from spec.failure import NOT_TRIED, Failure


class Misused(Failure):
    """An option has an invalid value, or options do not fit together."""

    exit_code = NOT_TRIED
