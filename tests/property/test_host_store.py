"""HostStore with a directory under any sequence of verbs, restarts among them, against two dictionaries."""

import shutil
import tempfile
from pathlib import Path

import numpy as np
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from arriero.backend.fingerprint import Fingerprint
from arriero.backend.host_store import HostStore
from arriero.backend.run_folder import open_folder
from arriero.backend.sequence_state import Bytes
from arriero.core.events import SaveSequence
from arriero.core.ids import SavedKey, SequenceId
from tests.property.machines import machine_settings

PRINT = Fingerprint((("model", "small"),))
LIMIT_S = 60.0
MAX_BYTES = 100
CONTENTS = st.integers(1, 6)


def payload_of(content: int) -> Bytes:
    return np.full(10 * content, content, np.uint8)


class StoreMachine(RuleBasedStateMachine):
    """Content n has 10 * n bytes and the tokens (n, n); what is written may leave memory, what is not may not."""

    @initialize()
    def build(self) -> None:
        self.path = Path(tempfile.mkdtemp())
        self.keys: dict[SavedKey, int] = {}
        self.next_key = 1
        self.open()

    def open(self) -> None:
        folder = open_folder(self.path, PRINT)
        self.store = HostStore(MAX_BYTES, folder=folder)
        found = self.store.adopt(folder.scan(100))
        assert sorted(run.tokens[0] for run in found) == sorted(set(self.keys.values()))
        self.keys = {run.key: run.tokens[0] for run in found}
        self.next_key = len(found) + 1

    @rule(content=CONTENTS)
    def save(self, content: int) -> None:
        key, self.next_key = SavedKey(self.next_key), self.next_key + 1
        payload = payload_of(content)
        assert self.store.flush(LIMIT_S)
        assert self.store.make_room(payload.nbytes), "everything before is on disk"
        assert self.store.keep(SaveSequence(SequenceId(0), key, 2, "scope", (content, content)), payload)
        self.keys[key] = content

    @rule(key=st.integers(1, 30).map(SavedKey))
    def load(self, key: SavedKey) -> None:
        payload = self.store.load(key)
        expected = self.keys.get(key)
        assert (None if payload is None else payload.tobytes()) == (expected and payload_of(expected).tobytes())

    @rule(key=st.integers(1, 30).map(SavedKey))
    def forget(self, key: SavedKey) -> None:
        self.store.forget(key)
        self.keys.pop(key, None)

    @rule()
    def restart(self) -> None:
        self.store.close()
        self.open()

    @invariant()
    def keeps_to_its_memory(self) -> None:
        assert self.store.num_bytes <= MAX_BYTES
        assert self.store.num_runs == len(self.keys)
        assert self.store.counts.damaged == 0

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
            shutil.rmtree(self.path)


StoreMachine.TestCase.settings = machine_settings(one_in=5)
test_any_sequence_of_verbs = StoreMachine.TestCase
