import pytest

from arriero.core import errors


def test_every_error_is_an_arriero_error_and_keeps_its_sentence() -> None:
    classes = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, Exception)]
    for each in classes:
        assert issubclass(each, errors.ArrieroError)
        error = each("what to do", needed=1, limit=2) if each is errors.ContextTooLong else each("what to do")
        assert str(error) == "what to do"


def test_a_callers_error_names_its_field() -> None:
    assert errors.InvalidRequest("no", field="prompt").field == "prompt"
    assert errors.UnknownModel("no").field is None


def test_a_context_error_carries_both_numbers() -> None:
    error = errors.ContextTooLong("no", needed=513, limit=512)
    assert (error.needed, error.limit, error.field) == (513, 512, "prompt")


@pytest.mark.parametrize(
    ("kind", "parent"),
    [
        (errors.InvalidSampling, errors.CallerError),
        (errors.ContextTooLong, errors.InvalidRequest),
        (errors.QueueFull, errors.Refused),
        (errors.StepFailed, errors.EngineFault),
        (errors.CallOrderError, errors.InvariantViolation),
        (errors.BindingMismatch, errors.ConfigError),
    ],
)
def test_the_tree_is_as_drawn(kind: type[Exception], parent: type[Exception]) -> None:
    assert issubclass(kind, parent)


def test_a_refusal_says_when_to_come_back_and_a_fault_has_a_code() -> None:
    assert errors.QueueFull("full", retry_after_s=7).retry_after_s == 7
    assert errors.Draining("closing").retry_after_s == 1
    assert errors.StepFailed("bad row", code="decode_failed").code == "decode_failed"
