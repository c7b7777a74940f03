"""Flags win over variables, those over the file, that over the defaults; every mistake is one line with the remedy."""

import argparse
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arriero.cli.sources import add_options, configure, make_parser, misspelled
from arriero.core.config import LogLevel, ServeConfig
from arriero.core.errors import ConfigError
from arriero.core.option_kinds import Threads


def parse(*words: str) -> argparse.Namespace:
    parser = make_parser("serve", "Serve.")
    add_options(parser)
    return parser.parse_args(words)


def configured(*words: str, environment: Mapping[str, str] | None = None) -> ServeConfig:
    return configure(parse(*words), environment or {})


def refusal(*words: str, environment: Mapping[str, str] | None = None) -> str:
    with pytest.raises(ConfigError) as refused:
        configured(*words, environment=environment)
    message = str(refused.value)
    assert "\n" not in message
    return message


def test_nothing_given_is_the_defaults() -> None:
    assert configured() == ServeConfig()


@given(st.sets(st.sampled_from(["file", "environment", "flag"])))
def test_the_strongest_source_wins(sources: set[str]) -> None:
    ports = {"file": 1001, "environment": 1002, "flag": 1003}
    expected = next((ports[source] for source in ("flag", "environment", "file") if source in sources), 8080)
    environment = {"ARRIERO_PORT": "1002"} if "environment" in sources else {}
    words = ["--port", "1003"] if "flag" in sources else []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("arriero.cli.sources.from_toml", lambda _: {"port": 1001})
        words += ["--config", "some.toml"] if "file" in sources else []
        assert configured(*words, environment=environment).port == expected


def test_a_flag_can_take_back_what_a_variable_says() -> None:
    environment = {"ARRIERO_TRACE": "1", "ARRIERO_PREFILL_ROWS_PER_SEQ": "32"}
    config = configured("--no-trace", "--prefill-rows-per-seq", "0", environment=environment)
    assert not config.trace
    assert config.prefill_rows_per_seq is None


def test_a_file_holds_every_kind_of_value(tmp_path: Path) -> None:
    file = tmp_path / "arriero.toml"
    file.write_text(
        'log_level = "debug"\nthreads = "2,4"\nengine_cpus = [0, 1]\ndrain_timeout = 5\n'
        'max_body_size = "1M"\napi_key = ["sesame"]\ntrace = true\n'
    )
    config = configured("--config", str(file))
    assert config == ServeConfig(
        log_level=LogLevel.DEBUG,
        threads=Threads(2, 4),
        engine_cpus=(0, 1),
        drain_timeout=5.0,
        max_body_size=1 << 20,
        api_key=("sesame",),
        trace=True,
    )
    assert configured(environment={"ARRIERO_CONFIG": str(file)}) == config


def test_an_empty_variable_counts_as_not_set() -> None:
    assert configured(environment={"ARRIERO_PORT": ""}).port == 8080


def test_keys_may_be_repeated_and_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("# the team\nsesame\n\n  open \n")
    assert configured("--api-key", "one,two", "--api-key", f"@{file}").api_key == ("one,two", "sesame", "open")
    assert configured(environment={"ARRIERO_API_KEY": f"one,@{file}"}).api_key == ("one", "sesame", "open")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--sequences", "300"], "--sequences 300: llama.cpp has at most 256 sequence ids; use 256 or fewer"),
        (["--port", "http"], "--port http: not a whole number; give one of 0 to 65535"),
        (["--kv", "paged"], "--kv paged: not one of the choices; use unified or separate"),
        (["--api-key", " "], "--api-key: empty; give a value or leave it out"),
        (["--api-key", "@/no/such"], "--api-key @/no/such: no such file or directory; name a text file"),
        (["--config", "/no/such"], "--config /no/such: no such file or directory; name a TOML file"),
        (["--prot", "1"], "unrecognized arguments: --prot 1; see arriero serve --help"),
        (["--port"], "argument --port: expected one argument; see arriero serve --help"),
    ],
)
def test_a_bad_flag_is_one_line(words: list[str], message: str) -> None:
    assert refusal(*words).startswith(message)


def test_a_bad_variable_is_named() -> None:
    message = refusal(environment={"ARRIERO_BATCH": "all"})
    assert message.startswith("ARRIERO_BATCH=all: not a whole number")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ctx-size = 5", "ctx-size: no setting; did you mean ctx_size?"),
        ("colour = 'red'", "colour: no setting; take it out; the keys are in docs/configuration.md"),
        ("port = '8080'", "port = '8080': not a whole number; give one of 0 to 65535, without quotes"),
        ("[serve]\nport = 1", "serve: no setting"),
        ("port = ", "no TOML"),
        ("api_key = 7", "api_key: not a list of texts; put them in [ ]"),
    ],
)
def test_a_bad_file_is_named_with_its_key(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "arriero.toml"
    file.write_text(text)
    refused = refusal("--config", str(file))
    assert str(file) in refused
    assert message in refused


def test_a_secret_is_not_repeated_in_a_complaint(tmp_path: Path) -> None:
    file = tmp_path / "arriero.toml"
    file.write_text('api_key = "sesame"')
    assert "sesame" not in refusal("--config", str(file))
    assert "sesame" not in refusal(environment={"ARRIERO_API_KEY": "sesame,,"})


def test_a_misspelled_variable_is_told() -> None:
    assert misspelled({"ARRIERO_SEQUENCE": "4", "ARRIERO_PORT": "1", "HOME": "/", "ARRIERO_BLESS": "1"}) == [
        "ARRIERO_SEQUENCE: no setting; did you mean ARRIERO_SEQUENCES?"
    ]
