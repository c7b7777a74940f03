"""What every command asks before it measures: is somebody else keeping this machine busy?"""

from arriero.core.errors import ConfigError


def busy_or_refused(remedy: str, *, busy_ok: bool) -> str | None:
    """Who keeps the machine busy, in one line; None if it is quiet.

    Args:
        remedy: what to do, behind `wait, `.
        busy_ok: a busy machine is no reason to refuse.

    Raises:
        ConfigError: names the busy processes.
    """
    from arriero.record.machine_load import busy_now

    busy = busy_now()
    if busy is not None and not busy_ok:
        raise ConfigError(f"{busy}; wait, {remedy}")
    return busy


def require_quiet(remedy: str, *, busy_ok: bool) -> None:
    """Refuse a busy machine; where that is allowed nobody looks, since each measurement says what it saw.

    Raises:
        ConfigError: names the busy processes.
    """
    if not busy_ok:
        busy_or_refused(remedy, busy_ok=False)
