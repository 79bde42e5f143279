"""Say which option of `modelctl rollout`, `watch` or `compare` says what cannot be."""

from spec.failure import NOT_TRIED, Failure


class Misused(Failure):
    """An option says what cannot be."""

    exit_code = NOT_TRIED
