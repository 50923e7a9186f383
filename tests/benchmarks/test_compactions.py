"""The long session of the benchmarks, shorter and in a small window: it runs to its end, whatever compacts it."""

import asyncio

import pytest
from benchmarks.compactions import STRATEGIES, TRIGGERS, run_session

from coppice.compaction.settings import StrategyName, TriggerName

WINDOW = 16_384
TURNS = 120
"""So many prompts are larger than the window themselves."""


@pytest.mark.parametrize("trigger", TRIGGERS)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_session_whose_prompts_alone_fill_the_window_runs_to_its_end(
    strategy: StrategyName, trigger: TriggerName
) -> None:
    model, watch = asyncio.run(run_session(strategy, trigger, TURNS, window=WINDOW))
    assert (len(watch.turns), watch.failures) == (TURNS, [])
    assert 5 <= len(watch.compactions) <= TURNS // 3
    assert max(model.sent) <= WINDOW
