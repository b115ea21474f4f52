"""The benchmark itself: its verdicts, its list, its table, and that every row can be measured."""

import json
import re
from pathlib import Path

import pytest

from tests.bench.__main__ import main
from tests.bench.budget import claim
from tests.bench.measure import Slice, seconds_per_unit
from tests.bench.report import markdown, text
from tests.bench.row import Bench, Result, Row, Samples, Scenario, Target, by_scenario, judge
from tests.bench.table import BY_NAME, MORE, ROWS
from tests.bench.versions import ROOT, UnknownCommit, at_commit, current

# The beginning of the reasons for which a row may be skipped here.
NOT_INSTALLED = re.compile(r".* is not installed: |PostgreSQL refuses root|nats-server can't sync")


async def nothing(bench: Bench) -> Samples:
    """Measure nothing."""
    return Samples({})


def row(target: Target | None, baseline: str | None = "base") -> Row:
    return Row("name", "what", "against", target, "ms", nothing, "ours", baseline)


def result(ours: list[float], base: list[float], target: Target, **more: list[float]) -> Result:
    return judge(row(target), Samples({"ours": ours, "base": base, **more}))


@pytest.mark.parametrize(
    ("limit", "verdict"), [(3.0, "met"), (2.0, "within noise"), (1.0, "missed")]
)
def test_a_target_within_the_middle_half_of_the_ratios_is_within_noise(
    limit: float, verdict: str
) -> None:
    judged = result([1.5, 2.0, 2.5, 1.7, 2.3], [1.0] * 5, Target("<=", limit))

    assert judged.verdict == verdict
    assert result([2.0] * 5, [1.0] * 5, Target(">=", 2)).verdict == "met"


def test_ratios_are_those_of_the_same_round() -> None:
    judged = result([10.0, 20.0, 30.0], [1.0, 2.0, 3.0], Target(">=", 1))

    assert judged.ratio is not None
    assert (judged.ratio.low, judged.ratio.high) == (10.0, 10.0)


def test_the_fastest_variant_is_chosen_by_its_median() -> None:
    values = {"ours": [4.0], "base, one": [1.0], "base, two": [2.0], "other": [9.0]}
    judged = judge(row(None, "base*"), Samples(values))

    assert judged.chosen == "base, two"
    assert judged.ratio is not None
    assert judged.ratio.median == 2.0


def test_a_side_that_is_missing_skips_its_rows_with_the_reason() -> None:
    for baseline in ("base", "base*"):
        samples = Samples({"ours": [1.0]}, missing={"base": "base is not installed: apt install"})
        judged = judge(row(Target(">=", 1), baseline), samples)

        assert list(text(judged)) == [f"{'name':<24} skipped: base is not installed: apt install"]


def test_the_version_before_is_compared_in_the_same_run() -> None:
    judged = result([2.0], [1.0], Target(">=", 1), **{"ours@before": [1.0]})

    assert judged.before is not None
    assert judged.change is not None
    assert (judged.before.median, judged.change.median) == (1.0, 2.0)
    [_, _, line] = markdown([judged])
    assert line == "| `name` | what | against | ≥ 1 | 1.00 | 2.00 | 2.00–2.00 | met |"


async def test_sides_take_turns_and_the_first_round_is_not_counted() -> None:
    order: list[str] = []

    def side(name: str) -> Slice:
        async def work() -> int:
            order.append(name)
            return 1

        return work

    samples = await seconds_per_unit({"a": side("a"), "b": side("b")}, 2)

    assert order == ["b", "a", "a", "b", "b", "a"]
    assert {name: len(values) for name, values in samples.items()} == {"a": 2, "b": 2}


def test_the_list_names_every_row(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0

    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert names == [*(row.name for row in (*ROWS, *MORE)), "budget"]
    assert len(set(names)) == len(names)


def test_an_unknown_row_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["round-trip-2"])

    assert "there is no row round-trip-2" in capsys.readouterr().err


def test_the_page_has_every_row_with_its_target() -> None:
    page = (ROOT / "docs" / "performance.md").read_text()
    rows = re.findall(r"^\| `([\w-]+)` \|.*?\| ([≤≥] [\d.]+|none)(?: ms)? \|", page, re.MULTILINE)

    expected = [line.split(" | ") for line in list(markdown([Result(each) for each in ROWS]))[2:]]
    assert dict(rows) == {cells[0].strip("| `"): cells[3].removesuffix(" ms") for cells in expected}


def test_a_sample_belongs_to_the_innermost_function_that_a_step_claims(tmp_path: Path) -> None:
    dispatch = (str(tmp_path / "hubd/plexus/dispatch.py"), "Call.run")
    loop = ("/usr/lib/python3.11/asyncio/events.py", "Handle._run")
    pydantic = ("/venv/pydantic/main.py", "validate")

    assert claim([pydantic, dispatch, loop], tmp_path)[0] == "dispatch"
    assert claim([loop], tmp_path)[0] == "event loop"
    new = (str(tmp_path / "hubd/rpc/new.py"), "run")
    assert claim([new, loop], tmp_path) == ("hubd/rpc/new.py", "hubd/rpc/new.py:run")


def test_a_commit_that_the_repository_lacks_is_reported(tmp_path: Path) -> None:
    with pytest.raises(UnknownCommit, match="has no commit 0000000"):
        at_commit("0000000", tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize(
    "scenario", by_scenario([*ROWS, *MORE]), ids=lambda each: each.__qualname__
)
async def test_every_row_can_be_measured(scenario: Scenario, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    bench = Bench(tmp_path / "work", (current(tmp_path),), rounds=1, scale=0.02)
    samples = await scenario(bench)

    results = [judge(each, samples) for each in BY_NAME.values() if each.scenario is scenario]
    skipped = [one.skipped for one in results if one.skipped is not None]
    assert [reason for reason in skipped if not NOT_INSTALLED.match(reason)] == []


@pytest.mark.soak
def test_a_run_compares_with_a_commit(tmp_path: Path) -> None:
    file = tmp_path / "all.json"
    main(["round-trip-1", "--small", "--rounds", "1", "--against", "HEAD", "--json", str(file)])

    written = json.loads(file.read_text())
    assert written["rows"][0]["row"]["name"] == "round-trip-1"
    assert written["rows"][0]["before"]["median"] > 0
    assert {"cores", "load", "processor_spread"} <= set(written["machine"])
