from pathlib import Path

from arriero.backend.cpu_features import FEATURES, compare_features, features_of_build, features_of_cpu

BUILD = "CPU : SSE3 = 1 | AVX = 1 | AVX2 = 1 | F16C = 0 | LLAMAFILE = 1 | OPENMP = 1 | "


def test_only_features_with_the_value_one_are_compiled_in() -> None:
    assert features_of_build(BUILD) == {"SSE3", "AVX", "AVX2", "LLAMAFILE", "OPENMP"}


def test_the_flags_of_the_first_cpu_are_read(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor\t: 0\nflags\t\t: fpu avx avx2\n\nprocessor\t: 1\nflags\t\t: fpu\n")
    assert features_of_cpu(cpuinfo) == frozenset({"fpu", "avx", "avx2"})


def test_a_machine_that_tells_no_flags_is_unknown(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    assert features_of_cpu(cpuinfo) is None
    cpuinfo.write_text("processor\t: 0\nFeatures\t: asimd\n")
    assert features_of_cpu(cpuinfo) is None
    assert compare_features(features_of_build(BUILD), None) == ((), ())


def test_what_the_cpu_lacks_and_what_the_build_leaves_unused_are_told_apart() -> None:
    difference = compare_features({"AVX", "AVX2"}, {"avx", "f16c", "fma", "avx512f"})
    assert difference.lacking_in_cpu == ("AVX2",)
    assert difference.unused_by_build == ("F16C", "FMA")  # of AVX512 only one of five parts is there


def test_a_build_without_amx_is_as_it_should_be() -> None:
    every_flag = {flag for flags in FEATURES.values() for flag in flags}
    assert compare_features(FEATURES.keys() - {"AMX_INT8"}, every_flag) == ((), ())
    assert compare_features(frozenset(FEATURES), every_flag - {"amx_int8"}).lacking_in_cpu == ("AMX_INT8",)
