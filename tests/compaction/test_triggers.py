"""When a context is due: Codex's limits and Pi's, as pure functions."""

import pytest

from coppice.compaction.settings import CompactionSettings, Limits, ModelLimits, limits_for
from coppice.compaction.triggers import codex_limit, is_downshift, is_due, is_hash_change


def codex(window: int | None, limit: int | None = None, scope: str = "total") -> Limits:
    settings = CompactionSettings(trigger="codex", auto_limit=limit, scope=scope)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  (a scope)
    return limits_for(settings, "a/b", window)


@pytest.mark.case("C01")
def test_codex_compacts_from_nine_tenths_of_the_window_on() -> None:
    limits = codex(272_000)
    assert codex_limit(limits) == 244_800
    assert (is_due(244_799, limits), is_due(244_800, limits)) == (False, True)


@pytest.mark.case("C01")
def test_pi_compacts_only_above_the_window_less_the_reserve() -> None:
    limits = limits_for(CompactionSettings(), "a/b", 272_000)
    assert (is_due(272_000 - 16_384, limits), is_due(272_000 - 16_383, limits)) == (False, True)


@pytest.mark.case("C02")
def test_a_configured_limit_is_clamped_to_nine_tenths_of_the_window() -> None:
    assert (codex_limit(codex(272_000, 300_000)), codex_limit(codex(272_000, 100_000))) == (244_800, 100_000)


@pytest.mark.case("C03")
def test_without_window_and_limit_nothing_is_ever_due() -> None:
    assert not is_due(10**9, codex(None))
    assert not is_due(10**9, limits_for(CompactionSettings(), "a/b", None))
    assert codex_limit(codex(None, 50_000)) == 50_000
    assert (is_due(49_999, codex(None, 50_000)), is_due(50_000, codex(None, 50_000))) == (False, True)


@pytest.mark.case("C04")
def test_the_scope_body_after_prefix_leaves_the_first_request_out() -> None:
    limits = codex(272_000, 20_000, "body_after_prefix")
    assert (is_due(79_999, limits, baseline=60_000), is_due(80_000, limits, baseline=60_000)) == (False, True)
    assert is_due(258_400, limits, baseline=258_400)
    assert not is_due(258_399, limits, baseline=258_399)
    assert not is_due(200_000, limits, baseline=None)


@pytest.mark.case("C04")
def test_a_configured_limit_of_the_body_is_not_clamped() -> None:
    limits = codex(272_000, 250_000, "body_after_prefix")
    assert (is_due(255_999, limits, baseline=6_000), is_due(256_000, limits, baseline=6_000)) == (False, True)


def test_a_models_own_settings_go_before_the_general_ones() -> None:
    settings = CompactionSettings(models={"a/b": ModelLimits(context_window=50_000, reserve_tokens=10_000)})
    assert limits_for(settings, "a/b", 200_000) == Limits(50_000, 10_000, 20_000, None, "pi", "total")


def test_a_small_window_has_a_small_reserve_and_keeps_less() -> None:
    assert limits_for(CompactionSettings(), "a/b", 8_000) == Limits(8_000, 2_000, 3_000, None, "pi", "total")


@pytest.mark.case("C10")
@pytest.mark.parametrize(
    ("active", "old", "new", "due"),
    [
        (150_000, 272_000, 128_000, True),
        (115_201, 272_000, 128_000, True),
        (115_200, 272_000, 128_000, False),
        (100_000, 272_000, 128_000, False),
        (150_000, 128_000, 272_000, False),
        (150_000, 128_000, 128_000, False),
        (150_000, None, 128_000, False),
        (150_000, 272_000, None, False),
    ],
)
def test_a_switch_to_a_smaller_window_compacts_what_would_not_fit(
    active: int, old: int | None, new: int | None, due: bool
) -> None:
    assert is_downshift(active, codex(old), codex(new)) is due


@pytest.mark.case("C10")
def test_in_the_body_scope_only_the_usable_window_counts_for_a_switch() -> None:
    old, new = codex(272_000, 20_000, "body_after_prefix"), codex(128_000, 20_000, "body_after_prefix")
    assert (is_downshift(121_599, old, new), is_downshift(121_600, old, new)) == (False, True)


@pytest.mark.case("C11")
@pytest.mark.parametrize(
    ("old", "new", "changed"),
    [("A", "B", True), (None, "A", False), ("A", None, False), (None, None, False), ("A", "A", False)],
)
def test_only_two_hashes_that_differ_are_a_change(old: str | None, new: str | None, changed: bool) -> None:
    assert is_hash_change(old, new) is changed
