"""Fields, paths, URLs and scopes of rules, and remembered rules."""

import os
from pathlib import Path
from typing import Any, get_args

import pytest

from hubd.plugins.loopback.rules import globs, paths, patterns, scopes
from hubd.plugins.loopback.rules.decide import decide
from hubd.plugins.loopback.rules.remember import Remember, remembered
from hubd.plugins.loopback.rules.rule import Effect, Rule, ToolCall
from hubd.plugins.loopback.rules.subject import prepare
from hubd.plugins.loopback.rules.words import InvalidPatternError

REMEMBER: tuple[Remember, ...] = get_args(Remember)
ID = "11111111-1111-4111-8111-111111111111"


def decided(
    tool: str,
    data: dict[str, Any],
    *rules: tuple[Any, ...],
    cwd: str = "/nowhere",
    session: str | None = None,
) -> str:
    """Decide a call by rules of (effect, tool, pattern, scope)."""
    stored_rules = []
    for number, (effect, tool_glob, *rest) in enumerate(rules):
        pattern = rest[0] if rest else None
        resolved = paths.resolved_pattern(patterns.read(pattern).glob) if pattern else None
        scope = rest[1] if len(rest) > 1 else "global"
        stored_rules.append(
            Rule(
                effect, tool_glob, pattern, scope, resolved=resolved, id=bytes([number]), key=number
            )
        )
    call = ToolCall(tool, data, cwd, session_id=session, session_name=session and f"n{session}")
    return decide(call, stored_rules, 0).effect


def read(path: str, *rules: tuple[Any, ...], cwd: str = "/nowhere") -> str:
    return decided("Read", {"file_path": path}, *rules, cwd=cwd)


def fetch(url: str, *rules: tuple[Any, ...]) -> str:
    return decided("WebFetch", {"url": url}, *rules)


def test_an_allow_rule_for_a_directory_covers_resolved_paths_only(tmp_path: Path) -> None:
    inside, outside = tmp_path / "in", tmp_path / "out"
    inside.mkdir()
    outside.mkdir()
    (inside / "link").symlink_to(outside)
    allow = ("allow", "Read", f"{inside}/*")
    assert read(f"{inside}/a", allow) == "allow"
    assert read(f"{inside}/deep/a", allow) == "allow"
    assert read("a", allow, cwd=str(inside)) == "allow"
    assert read("../in/a", allow, cwd=str(outside)) == "allow"
    for path in [
        f"{inside}",
        f"{inside}/../out/a",
        f"{inside}/link/a",
        f"{inside}/link/../in/a",
        f"{inside}x/a",
        f" {inside}/a",
        f"{inside}/a ",
        f"{inside}/a\x00",
        f"{inside}/a\n",
        "a",
        "~/a",
        "",
    ]:
        assert read(path, allow) == "ask", path


def test_a_symlink_that_changes_later_does_not_widen_a_rule(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "a")
    pattern = f"{link}/*"
    rule = Rule("allow", "Read", pattern, resolved=paths.resolved_pattern(pattern))
    call = ToolCall("Read", {"file_path": f"{link}/x"}, "/")
    assert decide(call, [rule], 0).effect == "allow"
    link.unlink()
    link.symlink_to(tmp_path / "b")
    assert decide(call, [rule], 0).effect == "ask"


def test_a_relative_pattern_is_below_the_sessions_directory(tmp_path: Path) -> None:
    allow = ("allow", "Edit", "src/*.py")
    edit = {"file_path": f"{tmp_path}/src/a.py"}
    assert decided("Edit", edit, allow, cwd=str(tmp_path)) == "allow"
    assert decided("Edit", {"file_path": "./src/b/a.py"}, allow, cwd=str(tmp_path)) == "allow"
    assert decided("Edit", edit, allow, cwd="/nowhere") == "ask"
    assert decided("Edit", edit, allow, cwd="") == "ask"


def test_tilde_is_the_users_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert read(f"{tmp_path}/x", ("allow", "Read", "~/*")) == "allow"
    assert read("~/x", ("deny", "Read", "~/*")) == "deny"


def test_deny_rules_match_every_form_of_a_path(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    link = tmp_path / "link"
    link.symlink_to(secret)
    everything = ("allow", "Read")
    for pattern in [f"{secret}/*", f"{secret}", f"{link}/*", "secret/*", "*.KEY", "a.key"]:
        for path in [f"{secret}/a.key", f"{link}/a.key", f"{tmp_path}/x/../secret/a.key"]:
            assert read(path, ("deny", "Read", pattern), everything) == "deny", (pattern, path)
    assert read("/etc/a", ("deny", "Read", f"{secret}/*"), everything) == "allow"
    assert read("~weird\x00", ("deny", "Read", f"{secret}/*"), everything) == "ask"


def test_all_path_fields_of_a_call_must_be_covered() -> None:
    allow = ("allow", "Edit", "/nowhere/*")
    both = {"file_path": "/nowhere/a", "path": "/etc/passwd"}
    assert decided("Edit", both, allow) == "ask"
    assert decided("Edit", both, ("allow", "Edit"), ("deny", "Edit", "/etc/*")) == "deny"


def test_urls_are_compared_part_by_part() -> None:
    allow = ("allow", "WebFetch", "https://*.a.org/docs/*")
    for url in ["https://x.a.org/docs/y", "https://X.A.org/docs/y?z", "https://x.a.org:443/docs/"]:
        assert fetch(url, allow) == "allow", url
    for url in [
        "http://x.a.org/docs/y",
        "https://a.org/docs/y",
        "https://evil.org/x.a.org/docs/y",
        "https://evil.org?x.a.org/docs/y",
        "https://evil.org#x.a.org/docs/y",
        "https://x.a.org@evil.org/docs/y",
        "https://x.a.org:444/docs/y",
        "https://x.a.org.evil.org/docs/y",
        "https://x.a.org/docs/../y",
        "https://x.a.org/docs/%2e%2e/y",
        "https://x.a.org/docs/..%2fy",
        "https://x.a.org\\@evil.org/docs/y",
        "https://x.a.org/docs/ y",
        "https://x.\u0430.org/docs/y",
        "https://x.a.org/docs/\n",
        "file:///docs/y",
        "",
    ]:
        assert fetch(url, allow) == "ask", url
    assert fetch("https://a.org/", ("allow", "WebFetch", "a.org")) == "allow"
    assert fetch("https://a.org/x", ("allow", "WebFetch", "a.org")) == "ask"
    assert fetch("http://a.org/", ("allow", "WebFetch", "a.org")) == "ask"
    assert fetch("https://b.org/x", ("allow", "WebFetch", "*")) == "allow"


def test_deny_rules_for_a_host_cover_all_of_it() -> None:
    deny, everything = ("deny", "WebFetch", "a.org"), ("allow", "WebFetch")
    for url in ["http://a.org", "https://A.ORG/x", "https://a.org:8080/x?y"]:
        assert fetch(url, deny, everything) == "deny", url
    # Programs may read these differently.
    for url in ["https://a.org./x", "https://u@a.org/", "https://a.org\\x"]:
        assert fetch(url, deny, everything) == "ask", url
    assert fetch("https://b.org/a.org", deny, everything) == "allow"


def test_other_tools_are_matched_by_their_fields() -> None:
    data = {"query": "cats", "limit": 3}
    assert decided("mcp__x__find", data, ("allow", "mcp__x__*", "query=c*")) == "allow"
    assert decided("mcp__x__find", data, ("allow", "mcp__x__*", "limit=3")) == "allow"
    assert decided("mcp__x__find", data, ("allow", "mcp__x__*", "limit=30")) == "ask"
    assert decided("mcp__x__find", data, ("allow", "mcp__x__*", "c*")) == "ask"
    assert decided("mcp__x__find", data, ("allow", "mcp__x__*", "absent=*")) == "ask"
    assert decided("mcp__y__find", data, ("allow", "mcp__x__*")) == "ask"
    assert decided("mcp__x__find", data, ("deny", "*", "c*"), ("allow", "*")) == "deny"


def test_a_field_named_command_is_a_shell_command_in_every_tool() -> None:
    rules = [("allow", "mcp__x__*", "command=git *"), ("allow", "*", "rm *")]
    assert decided("mcp__x__run", {"command": "git log"}, *rules) == "allow"
    for command in ["git log; rm x", "git log $(rm x)", "git -c a=b log", "rm x"]:
        assert decided("mcp__x__run", {"command": command}, *rules) == "ask", command


def test_an_allow_rule_for_bash_ignores_fields_that_the_agent_chooses() -> None:
    data = {"command": "rm x", "description": "safe"}
    assert decided("Bash", data, ("allow", "Bash", "description=safe")) == "ask"
    assert decided("Bash", data, ("allow", "*", "description=safe")) == "ask"
    unsafe = {"command": "git log", "dangerouslyDisableSandbox": True}
    assert decided("Bash", unsafe, ("allow", "Bash", "git *")) == "ask"
    assert decided("Bash", unsafe, ("allow", "Bash", "command=git log")) == "ask"
    assert decided("Bash", unsafe, ("allow", "Bash")) == "allow"


def test_a_value_that_is_not_text_is_never_matched_by_an_allow_rule() -> None:
    for tool, field in [("Bash", "command"), ("Read", "file_path"), ("WebFetch", "url")]:
        for value in [None, 1, ["git", "log"], {"git": "log"}]:
            assert decided(tool, {field: value}, ("allow", tool, "*")) == "ask"
            assert decided(tool, {field: value}, ("deny", tool, "x"), ("allow", tool)) == "ask"
        assert decided(tool, {}, ("allow", tool, "*")) == "ask"


def test_scopes_select_sessions(tmp_path: Path) -> None:
    data = {"command": "x"}
    below = tmp_path / "below"
    below.mkdir()
    link = tmp_path / "link"
    link.symlink_to("/")
    scope = f"dir:{tmp_path}"
    assert decided("Bash", data, ("allow", "Bash", None, scope), cwd=str(tmp_path)) == "allow"
    assert decided("Bash", data, ("allow", "Bash", None, scope), cwd=str(below)) == "allow"
    for cwd in ["/", f"{tmp_path}x", str(link), "", f"{below}/../.."]:
        assert decided("Bash", data, ("allow", "Bash", None, scope), cwd=cwd) == "ask", cwd
    everything = ("allow", "Bash")
    for cwd in [str(link), ""]:
        assert decided("Bash", data, ("deny", "Bash", None, scope), everything, cwd=cwd) == "deny"
    assert decided("Bash", data, ("allow", "Bash", None, f"session:{ID}"), session=ID) == "allow"
    assert decided("Bash", data, ("allow", "Bash", None, f"session:n{ID}"), session=ID) == "allow"
    assert decided("Bash", data, ("allow", "Bash", None, "session:other"), session=ID) == "ask"
    assert decided("Bash", data, ("allow", "Bash", None, "session:x")) == "ask"


def test_a_session_named_like_anothers_id_does_not_get_its_rules() -> None:
    rule = Rule("allow", "Bash", scope=f"session:{ID}")
    call = ToolCall("Bash", {"command": "x"}, "/", session_id="other", session_name=ID)
    assert decide(call, [rule], 0).effect == "ask"


def test_scopes_are_stored_absolute(tmp_path: Path) -> None:
    assert scopes.normalized("global", "/") == "global"
    assert scopes.normalized("session:a b", "/") == "session:a b"
    assert scopes.normalized("dir:.", str(tmp_path)) == f"dir:{os.path.realpath(tmp_path)}"
    for scope in ["", "dir", "dir:", "session:", "session", "Global", "project:x", "dir:a\0"]:
        with pytest.raises(scopes.InvalidScopeError):
            scopes.normalized(scope, "/")


def test_expired_and_used_up_rules_are_named() -> None:
    rules = [
        Rule("allow", "Bash", "x", expires_at=100, id=b"a" * 16),
        Rule("allow", "Bash", "x", uses_left=0, id=b"b" * 16),
        Rule("allow", "Bash", "x", scope="session:z", id=b"c" * 16),
    ]
    call = ToolCall("Bash", {"command": "x"}, "/")
    assert decide(call, rules, 99).effect == "allow"
    decision = decide(call, rules, 100)
    assert decision.effect == "ask"
    assert decision.explanation == [
        "Rule 61616161 (allow Bash x) is expired.",
        "Rule 63636363 (allow Bash x) is for another scope, session:z.",
        "Rule 62626262 (allow Bash x) is used up.",
        "No rule applies, so an approver is asked.",
    ]


def test_rules_without_a_limit_are_used_first() -> None:
    limited = Rule("allow", "Bash", "x", uses_left=1, id=b"a", key=2)
    unlimited = Rule("allow", "Bash", "x", id=b"b", key=1)
    decision = decide(ToolCall("Bash", {"command": "x"}, "/"), [limited, unlimited], 0)
    assert decision.rules == (unlimited,)


def test_all_rules_that_allow_parts_of_a_command_are_named() -> None:
    first, second = Rule("allow", "Bash", "a *", id=b"a"), Rule("allow", "Bash", "b *", id=b"b")
    decision = decide(ToolCall("Bash", {"command": "a; b; a x"}, "/"), [second, first], 0)
    assert set(decision.rules) == {first, second}


@pytest.mark.parametrize("effect", ["allow", "deny"])
@pytest.mark.parametrize(
    ("tool", "data", "others"),
    [
        (
            "Bash",
            {"command": "rm *"},
            [{"command": "rm x"}, {"command": "rm  *"}, {"command": "x"}],
        ),
        ("Bash", {"command": "a; b"}, [{"command": "a"}, {"command": "b"}, {"command": "a; b; c"}]),
        ("Bash", {"command": "a $(b) > [c]"}, [{"command": "a"}, {"command": "a $(b) > c"}]),
        ("Bash", {"command": ""}, [{"command": " "}]),
        ("Read", {"file_path": "/nowhere/[a]*"}, [{"file_path": "/nowhere/a"}, {"file_path": "/"}]),
        ("WebFetch", {"url": "https://a/?*"}, [{"url": "https://a/?b"}, {"url": "https://a/"}]),
        (
            "mcp__a",
            {"q": "*", "n": [1]},
            [{"q": "x", "n": [1]}, {"q": "*"}, {"q": "*", "n": [1, 2]}],
        ),
        ("mcp__a", {}, [{"input": "{}"}, {"q": 1}]),
    ],
)
def test_a_remembered_rule_matches_only_the_very_value(
    tool: str, data: dict[str, Any], others: list[dict[str, Any]], effect: Effect
) -> None:
    subject = prepare(ToolCall(tool, data, "/nowhere", ID, "name"))
    for remember in REMEMBER:
        new = remembered(subject, effect, remember)
        rule = Rule(**vars(new))
        assert decide(subject, [rule], 0).effect == effect
        for other in others:
            call = ToolCall(tool, other, "/nowhere", ID, "name")
            assert decide(call, [rule], 0).effect == "ask", other
        assert decide(ToolCall(f"{tool}x", data, "/nowhere", ID), [rule], 0).effect == "ask"


def test_the_scope_of_a_remembered_rule() -> None:
    subject = prepare(ToolCall("Bash", {"command": "make"}, "/nowhere", ID, "name"))
    assert remembered(subject, "allow", "session").scope == f"session:{ID}"
    assert remembered(subject, "allow", "always").scope == "dir:/nowhere"
    assert remembered(subject, "deny", "always").scope == "global"
    stranger = prepare(ToolCall("Bash", {"command": "make"}, ""))
    for remember in REMEMBER:
        with pytest.raises(InvalidPatternError):
            remembered(stranger, "allow", remember)
    with pytest.raises(InvalidPatternError):
        remembered(
            prepare(ToolCall("Bash", {"command": "*" * 70_000}, "/", ID)), "allow", "session"
        )


def test_an_escaped_text_matches_only_itself() -> None:
    for text in ["*", "?", "[", "]", "[a]", "[*]", "[!a]", "\\*", "a*b?c[d]e", "", "[[]", "[]]"]:
        glob = globs.escape(text)
        assert globs.literal(glob) == text
        assert globs.matches(glob, text)
        assert not globs.matches(glob, f"{text}x")
        assert not globs.matches(glob, "a")


@pytest.mark.parametrize(
    ("effect", "tool", "pattern", "fix"),
    [
        ("allow", "Bash", "", "leave it out"),
        ("allow", "Bash", "  ", "leave it out"),
        ("allow", "Bash", "git log | sh", "command=TEXT"),
        ("allow", "Bash", "git:*", "write `git *`"),
        ("allow", "Bash", "comand=git", "write `command=comand=git`"),
        ("allow", "Bash", "command=", "no glob"),
        ("allow", "Bash", "description=x*", "must be about its command"),
        ("allow", "Read", "content=x", "must be about its file_path"),
        ("allow", "Bash", "git 'log", "not closed"),
        ("allow", "mcp__x__y", "cats", "write field=GLOB"),
        ("allow", "mcp__x__y", "command=a|*", "command=TEXT"),
        ("allow", "Bash(git *)", None, "not the name of a tool"),
        ("allow", "Bash", "x" * 70_000, "more than"),
    ],
)
def test_invalid_rules_are_rejected_with_a_fix(
    effect: str, tool: str, pattern: str | None, fix: str
) -> None:
    with pytest.raises(InvalidPatternError) as caught:
        patterns.check(effect, tool, pattern)
    assert fix in str(caught.value)


def test_valid_rules_are_accepted() -> None:
    for effect, tool, pattern in [
        ("allow", "Bash", None),
        ("allow", "Bash", "git *"),
        ("allow", "Bash", "A=1 git *"),
        ("allow", "Bash", "command=a | b > c"),
        ("deny", "Bash", "description=x*"),
        ("allow", "Read", "~/*"),
        ("allow", "Read", "path=/x"),
        ("allow", "mcp__*", "query=*"),
        ("allow", "*", None),
        ("deny", "*", "a | b"),
        ("allow", "mcp__x__y", "input=*"),
    ]:
        patterns.check(effect, tool, pattern)
