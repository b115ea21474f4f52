"""Replace secrets in text by `[REDACTED:kind]`. No I/O.

Only texts that are almost certainly secrets are replaced: tokens with a known prefix and length,
blocks of private keys, credentials of HTTP, and passwords in addresses. A token must stand alone,
so hashes, UUIDs and encoded images stay as they are.

Each kind has texts that every secret of the kind contains. `str.find` searches for them, and a
pattern is tried only there. So a long text costs little, also while other threads wait.
"""

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from hubd.wire.lazy_pattern import lazy_pattern

# Characters of a private key, with its labels.
MAX_KEY: Final = 32 * 1024
# Nested lists and objects of JSON that are searched. Deeper ones are replaced as a whole.
MAX_DEPTH: Final = 200
# Keys of an object whose value is a credential.
CREDENTIAL_KEYS: Final = frozenset(
    ("authorization", "proxy-authorization", "x-api-key", "x-goog-api-key", "api-key")
)

# A token is not part of a longer word. `=` may stand before it, as in `KEY=…`. So may the last
# letter of an escape: of JSON, of an address, or of a colour in the output of a command.
_ALONE: Final = (
    r"(?:(?<![A-Za-z0-9+/_-])|(?<=\\[nrtbf])|(?<=\\u[0-9a-fA-F]{4})|(?<=%[0-9a-fA-F]{2})"
    r"|(?<=\x1b\[m)|(?<=\x1b\[\dm)|(?<=\x1b\[\d\dm)|(?<=\x1b\[\d;\d\dm))"
)
_END: Final = r"(?![A-Za-z0-9+/_-])"
# The sign between a name and its value, with quotes that JSON in JSON escapes several times.
_SIGN: Final = r"""\\{0,8}["']?\s{0,3}[:=]\s{0,3}\\{0,8}["']?"""

_BEGIN_KEY: Final = lazy_pattern(r"-----BEGIN (?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?-----")
_END_KEY: Final = lazy_pattern(r"-----END (?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?-----")
# A part of every key, but not of source code that only names the labels.
_KEY_BODY: Final = lazy_pattern(r"[A-Za-z0-9+/=]{16}")
# The lines of a key whose end is missing. Tools may number the lines (`12→`) or escape their ends.
_KEY_LINES: Final = lazy_pattern(r"(?:(?:\\[nr]|\s|\d{1,7}→)*+[A-Za-z0-9+/=]{16,}+)*+")


class _Kind(NamedTuple):
    """One kind of secret. The group `secret` is replaced, or the whole match without one."""

    name: str
    hints: tuple[str, ...]
    # Matched at the place of a hint.
    pattern: re.Pattern[str]


def _token(name: str, hints: tuple[str, ...], rest: str) -> _Kind:
    """Return a kind of token: a prefix, and the rest of the token."""
    prefix = "|".join(map(re.escape, hints))
    return _Kind(name, hints, lazy_pattern(f"{_ALONE}(?:{prefix}){rest}{_END}"))


_SLACK: Final = ("xoxb-", "xoxp-", "xoxa-", "xoxr-", "xoxs-", "xoxc-", "xoxe-")
_KINDS: Final = (
    _token("aws-access-key", ("AKIA", "ASIA"), r"[A-Z2-7]{16}"),
    _Kind(
        "aws-secret-key",
        ("aws_secret_access_key", "AWS_SECRET_ACCESS_KEY", "SecretAccessKey", "secretAccessKey"),
        lazy_pattern(rf"\w+{_SIGN}(?P<secret>[A-Za-z0-9/+]{{40}})(?![\w/+=])"),
    ),
    _Kind(
        "aws-session-token",
        ("aws_session_token", "AWS_SESSION_TOKEN", "SessionToken", "sessionToken"),
        lazy_pattern(rf"\w+{_SIGN}(?P<secret>[A-Za-z0-9/+=]{{100,4096}})"),
    ),
    _token("github-token", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), r"[A-Za-z0-9]{36,251}"),
    _token("github-token", ("github_pat_",), r"[A-Za-z0-9]{22}_[A-Za-z0-9]{59}"),
    _token("gitlab-token", ("glpat-",), r"[A-Za-z0-9_-]{20,300}(?:\.[a-z0-9]{2}\.[a-z0-9]{9})?"),
    _token("slack-token", _SLACK, r"[0-9A-Za-z-]{20,250}"),
    _token("slack-token", ("xapp-",), r"\d-[A-Z0-9]{6,20}-\d{6,20}-[a-f0-9]{40,80}"),
    _Kind(
        "slack-webhook",
        ("hooks.slack.com/services/",),
        lazy_pattern(r"hooks\.slack\.com/services/(?P<secret>T\w{6,20}/B\w{6,20}/\w{16,40})"),
    ),
    _token(
        "stripe-key",
        ("sk_live_", "sk_test_", "rk_live_", "rk_test_", "whsec_"),
        r"[A-Za-z0-9]{16,250}",
    ),
    _token("google-api-key", ("AIza",), r"[A-Za-z0-9_-]{35}"),
    _token("google-oauth-secret", ("GOCSPX-",), r"[A-Za-z0-9_-]{28}"),
    _token("google-oauth-token", ("ya29.",), r"[A-Za-z0-9_-]{50,2000}"),
    _token("anthropic-key", ("sk-ant-",), r"[A-Za-z0-9_-]{20,250}"),
    _token("openai-key", ("sk-proj-", "sk-svcacct-", "sk-admin-"), r"[A-Za-z0-9_-]{20,250}"),
    _token("openai-key", ("sk-",), r"[A-Za-z0-9]{20}T3BlbkFJ[A-Za-z0-9]{20}"),
    _token("npm-token", ("npm_",), r"[A-Za-z0-9]{36}"),
    # In a file `.npmrc`; not a variable, such as `${NPM_TOKEN}`.
    _Kind(
        "npm-token",
        ("_authToken",),
        lazy_pattern(rf"_authToken{_SIGN}(?P<secret>[A-Za-z0-9._~+/=-]{{8,1000}})"),
    ),
    _token(
        "pypi-token",
        ("pypi-AgEIcHlwaS5vcmc", "pypi-AgENdGVzdC5weXBpLm9yZw"),
        r"[A-Za-z0-9_-]{50,1000}",
    ),
    _token("huggingface-token", ("hf_",), r"[A-Za-z]{34}"),
    # A header with `alg` or `typ`, a payload that is an object, and a signature.
    _token(
        "jwt",
        ("eyJhbGci", "eyJ0eXAi", "eyJraWQi", "eyJlbmMi"),
        r"[A-Za-z0-9_-]{2,4096}\.eyJ[A-Za-z0-9_-]{4,16384}\.[A-Za-z0-9_-]{20,4096}",
    ),
    _Kind(
        "authorization",
        ("uthorization", "UTHORIZATION"),
        lazy_pattern(
            rf"uthorization{_SIGN}"
            r"(?:Bearer|Basic|Token|Digest)\s{1,3}(?P<secret>[A-Za-z0-9._~+/=-]{8,16384})",
            re.IGNORECASE,
        ),
    ),
    _Kind(
        "api-key",
        ("x-api-key", "X-Api-Key", "X-API-Key", "X-API-KEY"),
        lazy_pattern(
            rf"x-api-key{_SIGN}(?P<secret>[A-Za-z0-9._~+/=-]{{12,1000}})",
            re.IGNORECASE,
        ),
    ),
    # Not a variable or a placeholder, such as `https://user:$TOKEN@host` or `user:<password>@`.
    _Kind(
        "password",
        ("://",),
        lazy_pattern(
            r"""://[^\s/:@"'<>`\\]{0,256}:(?P<secret>(?![$*{<%]|\[REDACTED)"""
            r"""[^\s/@"'<>`\\]{1,256})@[A-Za-z0-9\[]"""
        ),
    ),
)
_CREDENTIAL: Final = lazy_pattern(
    r"(?:(?:Bearer|Basic|Token|Digest)\s+)?(?P<secret>\S.*)", re.DOTALL
)

# The start and the end of a secret, and its kind.
_Span = tuple[int, int, str]


def redact(text: str) -> str:
    """Return the text with every secret replaced."""
    spans = sorted((*_private_keys(text), *_tokens(text)))
    if not spans:
        return text
    parts: list[str] = []
    end = 0
    for start, stop, kind in spans:
        # A secret inside another one, such as a JWT after `Bearer`.
        if start >= end:
            parts += (text[end:start], f"[REDACTED:{kind}]")
            end = stop
    return "".join((*parts, text[end:]))


def redact_json(value: Any, depth: int = 0) -> Any:
    """Return a JSON value with every secret in its texts replaced. Names of fields stay."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, dict | list) and depth == MAX_DEPTH:
        return "[REDACTED:nested]"
    if isinstance(value, list):
        return [redact_json(entry, depth + 1) for entry in value]
    if isinstance(value, dict):
        return {name: _field(name, entry, depth) for name, entry in value.items()}
    return value


def _field(name: object, value: Any, depth: int) -> Any:
    if (
        isinstance(value, str)
        and str(name).lower() in CREDENTIAL_KEYS
        and (match := _CREDENTIAL.fullmatch(value.strip()))
    ):
        return f"{match.string[: match.start('secret')]}[REDACTED:authorization]"
    return redact_json(value, depth + 1)


def _tokens(text: str) -> Iterator[_Span]:
    for kind in _KINDS:
        for hint in kind.hints:
            position = text.find(hint)
            while position >= 0:
                if match := kind.pattern.match(text, position):
                    group = "secret" if "secret" in kind.pattern.groupindex else 0
                    yield *match.span(group), kind.name
                    position = text.find(hint, match.end())
                else:
                    position = text.find(hint, position + len(hint))


def _private_keys(text: str) -> Iterator[_Span]:
    """Yield the blocks of private keys, also if their end is missing."""
    position = 0
    while (position := text.find("-----BEGIN ", position)) >= 0:
        begin = _BEGIN_KEY.match(text, position)
        if begin is None:
            position += 1
            continue
        start, position = begin.span()
        end = text.find("-----END ", position, position + MAX_KEY)
        closing = _END_KEY.match(text, end) if end >= 0 else None
        lines = closing or _KEY_LINES.match(text, position)
        if lines is not None and _KEY_BODY.search(text, position, lines.end()):
            position = lines.end()
            yield start, position, "private-key"
