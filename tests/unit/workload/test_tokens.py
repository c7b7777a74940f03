import pytest

from arriero.core.errors import BadWorkload
from arriero.workload.tokens import TOKEN_MAX, TOKEN_MIN, PackedTokens


def test_packed_tokens_are_a_sequence_equal_and_hashed_by_content() -> None:
    tokens = PackedTokens([1, -2, TOKEN_MAX, TOKEN_MIN])
    assert tuple(tokens) == (1, -2, TOKEN_MAX, TOKEN_MIN)
    assert tokens[1] == -2
    assert tokens[1:3] == PackedTokens([-2, TOKEN_MAX])
    assert len({tokens, PackedTokens(tokens.to_list())}) == 1
    assert tokens != [1, -2, TOKEN_MAX, TOKEN_MIN]
    assert len(tokens.to_bytes()) == 16
    assert repr(PackedTokens(range(9))) == "PackedTokens([0, 1, 2, 3, 4, 5, 6, 7, ...], 9 tokens)"


@pytest.mark.parametrize("token", [TOKEN_MAX + 1, TOKEN_MIN - 1, 1.5, "1"])
def test_what_is_no_int32_is_refused(token: int) -> None:
    with pytest.raises(BadWorkload, match="int32") as caught:
        PackedTokens([token])
    assert caught.value.field == "prompt_tokens"
