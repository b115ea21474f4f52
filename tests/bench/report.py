"""The results of rows as text, as a Markdown table, and as JSON."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from tests.bench.row import Quartiles, Result


def text(result: Result) -> Iterator[str]:
    """Return the lines of one result."""
    row = result.row
    if result.ratio is None or result.ours is None:
        yield f"{row.name:<24} skipped: {result.skipped}"
        return
    target = "" if row.target is None else f"target {row.target}"
    verdict = "" if row.target is None else result.verdict
    yield f"{row.name:<24} {_ratio(result.ratio):<24} {target:<14} {verdict}".rstrip()
    line = f"    {row.what}: {_value(result.ours, row.unit)}"
    if result.baseline is not None:
        value = _value(result.baseline, row.unit)
        line += f"; {_against(result)}: {value}, itself ±{result.baseline.spread / 2:.0%}"
    yield line
    if result.before is not None and result.change is not None:
        yield f"    before {_ratio(result.before)}; now / before {_ratio(result.change)}"


def markdown(results: Sequence[Result]) -> Iterator[str]:
    """Return the lines of a table."""
    yield "| row | what | against | target | before | now | spread | |"
    yield "|---|---|---|---|---|---|---|---|"
    for result in results:
        row = result.row
        unit = "" if row.baseline is not None else f" {row.unit}"
        cells = [f"`{row.name}`", row.what, _against(result), _target(result) + unit]
        if result.ratio is None:
            cells += ["", "", "", f"skipped: {result.skipped}"]
        else:
            before = "" if result.before is None else _number(result.before.median)
            low, high = _number(result.ratio.low), _number(result.ratio.high)
            verdict = "" if row.target is None else result.verdict
            cells += [before, _number(result.ratio.median), f"{low}–{high}", verdict]
        yield f"| {' | '.join(cells)} |"


def as_json(
    results: Sequence[Result], samples: Mapping[str, Any], machine: Mapping[str, Any]
) -> dict[str, Any]:
    """Return everything that was measured."""
    rows = []
    for result in results:
        fields = asdict(result)
        row = result.row
        fields["row"] = {"name": row.name, "what": row.what, "against": row.against}
        fields["row"] |= {"target": str(row.target or ""), "unit": row.unit}
        rows.append(fields)
    return {"machine": dict(machine), "rows": rows, "samples": dict(samples)}


def _against(result: Result) -> str:
    """Return the other side of a row, with the variant if there was a choice."""
    row = result.row
    is_choice = row.baseline is not None and row.baseline.endswith("*") and result.ratio is not None
    return f"{row.against} ({result.chosen})" if is_choice else row.against


def _target(result: Result) -> str:
    target = result.row.target
    if target is None:
        return "none"
    return f"{'≤' if target.sign == '<=' else '≥'} {target.value:g}"


def _ratio(values: Quartiles) -> str:
    return f"{_number(values.median)} ({_number(values.low)}–{_number(values.high)})"


def _value(values: Quartiles, unit: str) -> str:
    return f"{values.median:,.0f} {unit}" if values.median >= 100 else f"{values.median:.3g} {unit}"


def _number(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.1f}"
