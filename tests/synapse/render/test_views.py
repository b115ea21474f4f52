"""The views of a third-party plugin at a pseudo-terminal, for several widths."""

import re
from pathlib import Path

import pytest
from rich.cells import cell_len

from hubd.wire.paths import Paths
from synapse.argv import split
from synapse.commands.typer_app import build
from synapse.hub.cache import cache_path, load
from tests.synapse.support import Terminal, at_terminal, synapse, without_own_sequences

WIDTHS = (40, 80, 100)


@pytest.fixture(scope="module")
def home(cli_home: Path) -> Path:
    return cli_home


def drawing(home: Path, words: str, columns: int, **env: str) -> list[str]:
    """Return the lines of a view, without colours and spaces at their ends."""
    status, text = at_terminal(*words.split(), home=home, columns=columns, **env)
    assert status == 0, text
    lines = [line.rstrip() for line in without_own_sequences(text).splitlines()]
    assert max(map(cell_len, lines)) <= columns
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", "".join(lines))
    return lines


# -- lists -------------------------------------------------------------------------------------


LISTS = {
    40: [
        "NAME           STATUS      ASKED",
        "par1           ● running   Summarise th…",
        "fix            ? approval  Fix the fail…",
        "old            ✓ complete  Write the RE…",
        "evil name │…   ✗ failed    line one evi…",
        "… 2 more columns: cost, size (--fields,",
        "-o json)",
    ],
    80: [
        "NAME                       STATUS      ASKED                       COST     SIZE",
        "par1                       ● running   Summarise the logs         $0.12  1.5 KiB",
        "fix                        ? approval  Fix the failing test       $0.25  3.0 KiB",
        "old                        ✓ complete  Write the README, with a…  $0.38  4.5 KiB",
        "evil name │ ● fake‹U+202…  ✗ failed    line one evil name │ ● f…  $0.50  6.0 KiB",
    ],
}


@pytest.mark.parametrize("columns", LISTS)
def test_a_list_has_its_declared_columns(home: Path, columns: int) -> None:
    assert drawing(home, "views jobs", columns) == LISTS[columns]


def test_a_list_without_declared_columns_has_names_states_and_texts_first(home: Path) -> None:
    header, *rows = drawing(home, "views plain-jobs", 120)
    titles = " ".join(header.split())
    assert titles == "NAME STATUS PROMPT SIZE COST UPDATED TAGS JOB ID"
    # The ids differ in their last digit only.
    assert len({row.split()[-1] for row in rows}) == 4


def test_times_are_exact_on_request(home: Path) -> None:
    assert any("5h ago" in line for line in drawing(home, "views plain-jobs", 100))
    lines = drawing(home, "views plain-jobs --times", 160)
    assert all(re.search(r" \d{4}-\d\d-\d\d \d\d:\d\d:\d\d", line) for line in lines[1:])


# -- records -----------------------------------------------------------------------------------


def test_a_record_is_a_heading_and_aligned_fields(home: Path) -> None:
    lines = drawing(home, "views job", 80)
    lines[3] = re.sub(r"\d+ \w+ \d\d:\d\d", "TIME", lines[3])
    assert lines == [
        "fix  ? approval",
        "  prompt    Fix the failing test",
        "  size      3.0 KiB  cost  $0.25",
        "  updated   TIME (5h ago)",
        "  tags      a, b",
        "  head      a6eea5d2 in tree 4c23c707",
        "  duration  8.4 s    turns  3",
        "  job id    4c23c707-0000-4000-8000-000000000002",
    ]


def test_a_page_of_events_has_a_line_for_each(home: Path) -> None:
    assert drawing(home, "views log", 40) == [
        *("total  3", "events", "  0. step 0", "  1. step 1", "  2. step 2"),
    ]


# -- trees -------------------------------------------------------------------------------------


@pytest.mark.parametrize("columns", WIDTHS)
def test_a_conversation_is_flat_and_only_forks_indent(home: Path, columns: int) -> None:
    lines = drawing(home, "views talk", columns)
    heading = " · ".join(lines[: 2 if columns == 40 else 1])
    assert heading == "branch3 · 4c23c707 · 20 turns, 4 branches, 120 nodes"
    # Every turn has its own line, with the id at which it continues.
    names = [match[1] for line in lines if (match := re.search("● id([txy][0-9]+) ", line))]
    turns = [f"t{number}" for number in range(14)]
    others = [f"{kind}{number}" for number in (3, 6, 9) for kind in "xy"]
    assert sorted(names) == sorted(turns + others)
    indents = {line.partition("●")[0] for line in lines if "● idt" in line}
    assert indents == {""}
    # Its tools and the end of its answer follow.
    assert sum("⏺ Bash pytest -q" in line for line in lines) == 20
    assert sum("⏺ Bash pytest -q ✗" in line for line in lines) == 1
    assert sum("Done with" in line for line in lines) == 20
    assert [line for line in lines if "←" in line][-1].endswith("← main, copy")


def test_other_trees_have_ids_first_and_count_the_rest(home: Path) -> None:
    assert drawing(home, "views files --limit 4", 40) == [
        "files · 5 nodes",
        "● src  src",
        "├─● main.py  main.py",
        "└─● lib  lib",
        "  ● a.py  a.py",
        "… 1 more node (--limit 4; --all shows",
        "everything)",
    ]
    assert "more node" not in "".join(drawing(home, "views files --all", 40))


@pytest.mark.soak
def test_a_tree_of_10_021_nodes_is_complete(home: Path) -> None:
    lines = drawing(home, "views talk --turns 1664", 40)
    assert lines[1] == "1,670 turns, 4 branches, 10,020 nodes"
    assert sum("● id" in line for line in lines) == 1670


# -- the pager and --watch ---------------------------------------------------------------------


def test_long_output_goes_through_the_pager(home: Path, tmp_path: Path) -> None:
    pager = f"cat > {tmp_path / 'paged'}; echo paged"
    for words, is_paged in (
        ("views talk", True),
        ("views jobs", False),
        ("views talk --no-pager", False),
        ("views talk -j", False),
        ("cli chat", False),
    ):
        text = at_terminal(*words.split(), home=home, PAGER=pager)[1]
        assert (text == "paged\n") == is_paged, words
    assert "4c23c707" in (tmp_path / "paged").read_text()


@pytest.mark.parametrize("pager", ["", "cat", "/nowhere/pager"])
def test_without_a_usable_pager_the_output_is_written(home: Path, pager: str) -> None:
    assert "20 turns" in at_terminal("views", "talk", home=home, PAGER=pager)[1]


def test_a_watched_list_is_drawn_until_ctrl_c(home: Path) -> None:
    with Terminal("views", "jobs", "--watch", home=home) as terminal:
        terminal.until("Ctrl-C ends")
        terminal.type("\x03")
        status, text = terminal.finish()
    assert status == 130
    # The last drawing stays on the ordinary screen.
    assert "Summarise the logs" in text.partition("\x1b[?1049l")[2]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("views job --watch", "--watch needs a method that lists"),
        ("views jobs --watch", "--watch needs a terminal"),
        ("views job --all", "--all needs a method with a limit"),
        ("views jobs --all --limit 3", "--all and --limit exclude each other"),
    ],
)
def test_options_that_make_no_sense_are_refused(home: Path, words: str, reason: str) -> None:
    result = synapse(*words.split(), home=home)
    assert (result.returncode, result.stderr.splitlines()[0]) == (2, f"synapse: {reason}")


# -- help --------------------------------------------------------------------------------------


@pytest.mark.parametrize("columns", WIDTHS)
def test_help_has_panels_where_there_is_room(home: Path, columns: int) -> None:
    # An example stays in one piece, to be copied.
    text = at_terminal("cli", "say", "--help", home=home, columns=columns)[1]
    lines = without_own_sequences(text).splitlines()
    assert max(cell_len(line) for line in lines if "synapse cli say" not in line) <= columns
    panels = [match[1] for line in lines if (match := re.match("╭─ (.+?) ─", line))]
    assert panels == ([] if columns < 60 else ["Required", "Optional", "Output"])
    for part in ("--text", "Returns:", "Produces handles:", "Resolve returns:", "Example:"):
        assert part in text


def test_help_in_a_pipe_has_the_same_parts_as_plain_text(home: Path) -> None:
    text = synapse("cli", "say", "--help", home=home).stdout
    assert "╭" not in text
    for part in ("--text", "Returns:", "Produces handles:", "Resolve returns:", "Example:"):
        assert part in text


def test_brackets_and_colons_in_a_description_are_not_markup(home: Path) -> None:
    text = without_own_sequences(at_terminal("views", "jobs", "--help", home=home)[1])
    assert "[bold]not markup[/] and :memo: not an emoji" in text


def test_long_choices_leave_room_for_the_texts(home: Path) -> None:
    lines = without_own_sequences(at_terminal("views", "jobs", "--help", home=home)[1]).splitlines()
    (line,) = (line for line in lines if "--order" in line)
    assert re.search(r"--order +choice +The order of the jobs in the answer", line)
    words = " ".join(lines).replace("│", " ").split()
    assert "(one of newest_first, oldest_first, most_expensive_first)" in " ".join(words)


def test_parameters_of_which_one_is_needed_come_first(home: Path) -> None:
    text = at_terminal("claudecode", "poll", "--help", home=home, columns=100)[1]
    panels = re.findall("╭─ (.+?) ─", without_own_sequences(text))
    assert panels == ["Required", "Optional", "Output"]


def test_narrow_help_has_the_texts_below_long_names(home: Path) -> None:
    lines = drawing(home, "claudecode poll --help", 40)
    start = lines.index("  --from-seq integer")
    assert lines[start + 1].startswith("      The first sequence number")
    # Short names leave enough room beside them.
    lines = drawing(home, "echo --help", 40)
    start = lines.index("  once  Return a message once.") - 2
    assert lines[start : start + 2] == [
        "  echo  Return a message once or several",
        "        times.",
    ]


def test_methods_are_listed_in_the_order_of_the_class(home: Path) -> None:
    text = without_own_sequences(at_terminal("views", "--help", home=home)[1])
    names = re.findall(r"^│ ([a-z-]+) ", text, re.MULTILINE)
    assert names == ["jobs", "plain-jobs", "job", "log", "talk", "files"]


def test_a_generated_command_passes_its_tokens_to_the_parser(home: Path) -> None:
    cache = load(str(cache_path(Paths(str(home)).cache)))
    assert cache is not None
    invocation = split(["cli", "say"], cache)
    passed: list[list[str]] = []
    tokens = ["--text", "-", "--unknown", "x", "--role=-"]
    app = build(cache, invocation, passed.append)
    app(["cli", "say", "--", *tokens], standalone_mode=False)
    assert passed == [tokens]


def test_only_the_commands_of_the_overview_are_green(home: Path) -> None:
    text = at_terminal(home=home, columns=160)[1]
    purposes = [line for line in text.splitlines() if "List the approvals" in line]
    [style] = [
        line.rpartition("  List the approvals")[0].rpartition("\x1b[")[2] for line in purposes
    ]
    # A dim purpose, without the colour of its command.
    assert style == "2m"


def test_panels_of_help_leave_no_room_for_columns_without_text(home: Path) -> None:
    text = without_own_sequences(at_terminal("echo", "once", "--help", home=home, columns=80)[1])
    [line] = [line for line in text.splitlines() if "--message" in line and "│" in line]
    assert line.split("│")[1].startswith(" --message  text  ")


@pytest.mark.parametrize("columns", WIDTHS)
def test_the_overview_has_one_line_for_each_namespace(home: Path, columns: int) -> None:
    lines = without_own_sequences(at_terminal(home=home, columns=columns)[1]).splitlines()
    start, end = lines.index(""), lines.index("Try:")
    names = [line.split()[0] for line in lines[start + 1 : end - 1]]
    assert (names[0], names[-1]) == ("claudecode", "self")
    assert max(map(cell_len, lines[:end])) <= columns
    assert any(line.endswith("(28 namespaces below)") for line in lines) == (columns > 40)
