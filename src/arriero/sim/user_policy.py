"""A policy of somebody's own, found by its name: `module:Class`.

The module is looked for where Python looks, and in the folder where the program was started. Its code runs: whoever
replays a journal that names one trusts that module, not the journal.
"""

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Final

from arriero.core.choices import PolicyWord
from arriero.core.errors import ConfigError
from arriero.core.ids import Time
from arriero.scheduler.policies import Policy
from arriero.scheduler.policy_spec import PolicySpec
from arriero.scheduler.ranked import Ranked

_BASE: Final = f"{Ranked.__module__}.{Ranked.__name__}"


def policy_spec(word: str, ageing: Time) -> PolicySpec:
    """The policy of this name: one that comes with arriero, or a class that is loaded.

    Args:
        word: a `PolicyWord`, or `module:Class`.
        ageing: waiting that is worth one level of priority, on the time line of whoever asks.

    Raises:
        ConfigError: it is neither, or the class cannot be had.
    """
    own = None if word in tuple(PolicyWord) else load_policy(word)
    return PolicySpec(word=word, ageing=ageing, own=own)


def load_policy(name: str) -> Callable[[], Policy]:
    """The class of this name, which is called without arguments for a policy; that it can be, has been tried.

    Raises:
        ConfigError: says in one line what is missing, and the remedy.
    """
    module_name, colon, class_name = name.partition(":")
    if not (colon and class_name.isidentifier() and all(part.isidentifier() for part in module_name.split("."))):
        words = ", ".join(PolicyWord)
        raise ConfigError(f"policy {name!r}: none of {words}; name a class of your own as module:Class")
    found = getattr(_module(name, module_name), class_name, None)
    if found is None:
        raise ConfigError(f"policy {name}: module {module_name} has no {class_name}; name a class that it defines")
    _try(name, found)
    make: Callable[[], Policy] = found
    return make


def _module(name: str, module_name: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)  # stays: the module may import its neighbours later
    try:
        return import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and (module_name == error.name or module_name.startswith(f"{error.name}.")):
            message = f"policy {name}: there is no module {error.name}; start in its folder, or set PYTHONPATH"
            raise ConfigError(message) from None
        raise _broken(name, f"module {module_name} cannot be imported", error) from error
    except Exception as error:
        raise _broken(name, f"module {module_name} cannot be imported", error) from error


def _try(name: str, found: object) -> None:
    """Make one, and look whether it has what the scheduler calls."""
    if not isinstance(found, type):
        raise ConfigError(f"policy {name}: is no class; name a class that makes a policy")
    try:
        made: object = found()
    except Exception as error:
        raise _broken(name, "cannot be made without arguments", error) from error
    missing = [verb for verb in ("by_rank", "queue", "rank", "served", "victim") if not hasattr(made, verb)]
    if missing:
        raise ConfigError(f"policy {name}: is no Policy, it lacks {', '.join(missing)}; derive it from {_BASE}")


def _broken(name: str, what: str, error: Exception) -> ConfigError:
    """Their error in one line; the whole of it is the cause of ours."""
    told = " ".join(str(error).split())
    return ConfigError(f"policy {name}: {what} ({type(error).__name__}{': ' if told else ''}{told}); mend it")
