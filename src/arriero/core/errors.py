"""Every error that arriero raises on purpose.

    ArrieroError
    ├─ CallerError        the caller can mend it: names the field and the remedy
    │  ├─ InvalidRequest
    │  │  ├─ InvalidSampling
    │  │  ├─ ContextTooLong      carries both numbers
    │  │  ├─ PayloadTooLarge
    │  │  └─ Unsupported         a known parameter that is not done yet
    │  ├─ Unauthorized
    │  ├─ UnknownModel
    │  └─ UnknownRequest
    ├─ Refused            sound, but not now; carries `retry_after_s`
    │  ├─ QueueFull             too many requests
    │  │  └─ QueueTokensFull    too many prompt tokens wait
    │  ├─ KeyLimit              too many requests of one API key
    │  │  └─ KeyTokenLimit      too many prompt tokens of one API key
    │  ├─ QueueTimeout          it was taken, and had not started in time
    │  ├─ DeadlineHopeless      it could only be late
    │  └─ Draining
    ├─ EngineFault        ours
    │  ├─ StepFailed            one request; the others go on
    │  ├─ EngineDied            every open handle gets it
    │  └─ InvariantViolation    a bug; `CallOrderError` is one
    ├─ ConfigError        at start; the command ends with status 2
    │  ├─ ModelUnreadable
    │  ├─ BindingMismatch
    │  └─ PortInUse
    └─ DataError          a file says what cannot be; names file, line and field; status 2
       ├─ BadWorkload
       ├─ BadJournal
       └─ ReplayDiverged     a journal is sound, and its decisions are not repeated

Statuses and codes on the wire are the business of `http/errors.py`.
"""


class ArrieroError(Exception):
    """The root of the tree; its text is one line that a person can act on."""


class CallerError(ArrieroError):
    """The caller can mend it.

    Attributes:
        field: the name of the offending field as the caller knows it, or None.
    """

    def __init__(self, message: str, *, field: str | None = None) -> None:
        """Keep the field beside the message."""
        super().__init__(message)
        self.field = field


class InvalidRequest(CallerError):
    """A field has the wrong type or lies outside its range."""


class InvalidSampling(InvalidRequest):
    """A sampling parameter lies outside its range."""


class ContextTooLong(InvalidRequest):
    """The prompt, or prompt and allowed output together, exceed the context of one sequence.

    Attributes:
        needed: tokens that the request asks for.
        limit: tokens that one sequence of this server holds.
    """

    def __init__(self, message: str, *, needed: int, limit: int, field: str | None = "prompt") -> None:
        """Keep both numbers beside the message."""
        super().__init__(message, field=field)
        self.needed = needed
        self.limit = limit


class PayloadTooLarge(InvalidRequest):
    """A prompt or body exceeds the limit that the server was started with."""


class Unsupported(InvalidRequest):
    """A parameter of the public interface that arriero knows and does not do yet."""


class Unauthorized(CallerError):
    """No API key, or one that the server does not know."""


class UnknownModel(CallerError):
    """The request names a model that this server does not serve."""


class UnknownRequest(CallerError):
    """A cancel or a query names a request that is not alive."""


class Refused(ArrieroError):
    """A sound request that cannot be taken now.

    Attributes:
        retry_after_s: when to try again, whole seconds, at least 1.
    """

    def __init__(self, message: str, *, retry_after_s: int = 1) -> None:
        """Keep the delay beside the message."""
        super().__init__(message)
        self.retry_after_s = retry_after_s


class QueueFull(Refused):
    """The backlog has reached its bound."""


class QueueTokensFull(QueueFull):
    """The prompts that wait have as many tokens as may wait."""


class KeyLimit(Refused):
    """One API key has as many requests in flight as it may; others are not concerned."""


class KeyTokenLimit(KeyLimit):
    """The requests of one API key that are in flight have as many prompt tokens as they may."""


class QueueTimeout(Refused):
    """It has waited for as long as requests may, and has not started."""


class DeadlineHopeless(Refused):
    """Its answer could only come after its deadline, as far as that can be foreseen."""


class Draining(Refused):
    """The engine is shutting down or unhealthy and takes no new work."""


class EngineFault(ArrieroError):
    """Ours: the caller did nothing wrong.

    Attributes:
        code: a short word for records and error bodies.
    """

    def __init__(self, message: str, *, code: str = "engine_error") -> None:
        """Keep the code beside the message."""
        super().__init__(message)
        self.code = code


class StepFailed(EngineFault):
    """Decoding or sampling failed for one request; the others went on."""


class EngineDied(EngineFault):
    """The actor crashed; every open handle gets this error."""


class InvariantViolation(EngineFault):
    """The books of the scheduler or of the KV memory do not add up: a bug."""


class CallOrderError(InvariantViolation):
    """The verbs of the scheduler were called in an order outside its grammar, or time went back."""


class ConfigError(ArrieroError):
    """The configuration cannot work; the text names the option and the remedy."""


class ModelUnreadable(ConfigError):
    """The model file is missing, truncated or no GGUF."""


class BindingMismatch(ConfigError):
    """The installed llama.cpp binding is missing, of another version, or was built in another way."""


class PortInUse(ConfigError):
    """Another process listens on the address."""


class DataError(ArrieroError):
    """A file that arriero was given cannot be used.

    Attributes:
        file: its path as it was given, or None if it is not known here.
        line: counted from 1, or None if the whole file is meant.
        field: the name of the offending field or column, or None.
    """

    def __init__(
        self, message: str, *, file: str | None = None, line: int | None = None, field: str | None = None
    ) -> None:
        """Keep the place beside the message."""
        super().__init__(message)
        self.file = file
        self.line = line
        self.field = field


class BadWorkload(DataError):
    """A workload, its manifest, a generator's configuration or a published trace breaks its format."""


class BadJournal(DataError):
    """A journal is damaged, incomplete, or of another version."""


class ReplayDiverged(DataError):
    """A replay came to another decision than its journal holds.

    Attributes:
        step: the number of the step, or None if it is not known here.
        recorded: what the journal holds at `field`, as JSON.
        replayed: what the scheduler decided now, as JSON.
    """

    def __init__(
        self,
        message: str,
        *,
        step: int | None = None,
        field: str | None = None,
        recorded: str = "",
        replayed: str = "",
        line: int | None = None,
    ) -> None:
        """Keep the place and both values beside the message."""
        super().__init__(message, line=line, field=field)
        self.step = step
        self.recorded = recorded
        self.replayed = replayed
