import ctypes

from arriero.backend.interrupt import InterruptFlag


def test_the_compiled_function_reads_the_flag_as_a_bool() -> None:
    flag = InterruptFlag()
    kind = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p)
    reads = flag.callback(kind)
    read: list[bool] = [reads(flag.data)]
    for change in (flag.set, flag.set, flag.clear, flag.set):
        change()
        read.append(reads(flag.data))
    assert read == [False, True, True, False, True]
