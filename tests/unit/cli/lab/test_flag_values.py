"""Values of flags."""

import pytest

from arriero.cli.lab.flag_values import flag_value, whole_or
from arriero.core.errors import ConfigError
from arriero.core.option_kinds import Numbers, Whole


def test_a_flag_is_read_by_its_kind_and_left_out_it_is_the_default() -> None:
    assert flag_value("--threads", "1,3-4", Numbers(1)) == (1, 3, 4)
    assert (whole_or("--depth", "7", 0, 5), whole_or("--depth", None, 0, 5)) == (7, 5)


@pytest.mark.parametrize("text", ["many", "-1", pytest.param("9" * 5000, id="long"), "", "1.5"])
def test_what_cannot_be_read_names_the_flag_in_one_line(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        flag_value("--rounds", text, Whole(1))
    assert str(caught.value).startswith(f"--rounds {text}: ")
    assert "\n" not in str(caught.value)
