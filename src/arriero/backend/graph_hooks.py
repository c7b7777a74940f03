"""GraphHooks: functions that llama.cpp calls around the nodes of its graphs."""

from typing import Any, Protocol


class GraphHooks(Protocol):
    """What a context is made with so that somebody sees its graphs being computed."""

    def install(self, parameters: Any, structs: Any) -> None:  # noqa: ANN401 - ctypes has no static types
        """Put callbacks into the parameters of a context.

        Args:
            parameters: llama.cpp's context parameters: `cb_eval` is called around each node or packet of nodes,
                `abort_callback` after each node that was computed. Whatever is put there must outlive the context.
            structs: the binding's types, by their llama.cpp names.
        """
        ...
