from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from arriero.testing.strategies import SchedulerSetup, hypothesis_pick, setups
from tests.property.machines import machine_settings
from tests.property.scheduler_user import SchedulerUser


class SchedulerMachine(RuleBasedStateMachine):
    """Any sequence of verbs that the grammar allows, on any setup."""

    user: SchedulerUser
    started = False

    @initialize(setup=setups())
    def build(self, setup: SchedulerSetup) -> None:
        self.user = SchedulerUser(setup, lambda low, _: low)

    @precondition(lambda self: not self.started)
    @rule(data=st.data())
    def preload(self, data: st.DataObject) -> None:
        self._let(data).submit(preloaded=True)

    @rule(data=st.data())
    def submit(self, data: st.DataObject) -> None:
        self._let(data).submit()

    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        self._let(data).cancel()

    @rule(data=st.data())
    def step(self, data: st.DataObject) -> None:
        self.started = True
        self._let(data).step()

    @rule(data=st.data(), times=st.integers(1, 12))
    def several_steps(self, data: st.DataObject, times: int) -> None:
        for _ in range(times):
            self.step(data)

    def teardown(self) -> None:
        if hasattr(self, "user"):
            self.user.drain()

    def _let(self, data: st.DataObject) -> SchedulerUser:
        self.user.pick = hypothesis_pick(data.draw)
        return self.user


TestScheduler = SchedulerMachine.TestCase
TestScheduler.settings = machine_settings(one_in=5)
