from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from arriero.testing.strategies import SchedulerSetup, hypothesis_pick, reuse_setups
from tests.property.machines import machine_settings
from tests.property.reuse_user import ReuseUser


class ReuseMachine(RuleBasedStateMachine):
    """Any sequence of verbs that the grammar allows, on any setup with prefix reuse."""

    user: ReuseUser

    @initialize(setup=reuse_setups())
    def build(self, setup: SchedulerSetup) -> None:
        self.user = ReuseUser(setup, lambda low, _: low)

    @rule(data=st.data())
    def submit(self, data: st.DataObject) -> None:
        self._let(data).submit()

    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        self._let(data).cancel()

    @rule(data=st.data())
    def tend(self, data: st.DataObject) -> None:
        self._let(data).tend()

    @rule(data=st.data())
    def recalibrate(self, data: st.DataObject) -> None:
        self._let(data).recalibrate()

    @rule(data=st.data(), times=st.integers(1, 12))
    def steps(self, data: st.DataObject, times: int) -> None:
        for _ in range(times):
            self._let(data).step()

    def teardown(self) -> None:
        if hasattr(self, "user"):
            self.user.drain()

    def _let(self, data: st.DataObject) -> ReuseUser:
        self.user.pick = hypothesis_pick(data.draw)
        return self.user


TestReuse = ReuseMachine.TestCase
TestReuse.settings = machine_settings(one_in=5)
