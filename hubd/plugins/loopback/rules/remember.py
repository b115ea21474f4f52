"""The rule that an answer with `remember` stores: for the value that was asked, and only for it."""

from hubd.plugins.loopback.rules import globs, patterns
from hubd.plugins.loopback.rules.rule import MAX_PATTERN, Effect, NewRule, Remember
from hubd.plugins.loopback.rules.subject import Subject
from hubd.plugins.loopback.rules.words import InvalidPatternError


def remembered(
    subject: Subject, effect: Effect, remember: Remember, added_by: str | None = None
) -> NewRule:
    """Return the rule for a call that was answered.

    `session` is for the session of the call. `always` is for all sessions; an allowed command is
    only for the session's directory and below, because its effect depends on the directory.

    Raises:
        InvalidPatternError: The value is too long, the path can't be resolved with certainty, or
            the session is not known.
    """
    call = subject.call
    pattern, resolved = _exact(subject, effect)
    if len(pattern) > MAX_PATTERN:
        raise InvalidPatternError(f"a rule has at most {MAX_PATTERN:,} characters")
    if remember == "session":
        if call.session_id is None:
            raise InvalidPatternError("the call has no session")
        scope = f"session:{call.session_id}"
    elif effect == "allow" and subject.kind == "command":
        if subject.directory is None:
            raise InvalidPatternError("the directory of the session is not known")
        scope = f"dir:{subject.directory}"
    else:
        scope = "global"
    return NewRule(
        effect=effect,
        tool=globs.escape(call.tool_name),
        pattern=pattern,
        scope=scope,
        resolved=resolved,
        added_by=added_by,
    )


def _exact(subject: Subject, effect: Effect) -> tuple[str, str | None]:
    """Return the pattern for the very value of a call, and its resolved form for a path."""
    is_command = subject.kind == "command" and subject.command is not None
    if is_command and not subject.leaves_sandbox:
        return f"command={globs.escape(subject.command or '')}", None
    if subject.url is not None:
        return f"url={globs.escape(subject.url.written)}", None
    if len(subject.paths) == 1:
        path = subject.paths[0]
        if path.resolved is None:
            if effect == "allow":
                raise InvalidPatternError("the path can't be resolved with certainty")
            return f"path={globs.escape(path.written)}", None
        exact = globs.escape(path.resolved)
        return f"path={exact}", exact
    return f"{patterns.WHOLE_INPUT}={globs.escape(subject.whole)}", None
