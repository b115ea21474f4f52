"""Secrets are replaced in text and JSON; everything that only looks like one stays."""

import base64
import json
import re
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubd.conversations.export.secrets import redact, redact_json

# The halves are joined here, so that this file contains no text that looks like a secret.
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789" * 4
JWT = ".".join(("eyJhbGci" + LETTERS[:20], "eyJ" + LETTERS[:30], LETTERS[:43]))
KEY_BODY = "\n".join(LETTERS[:64] for _ in range(5))

TOKENS = {
    "aws-access-key": ["AKIA" + "ABCDEFGHIJKLMNOP", "ASIA" + "ABCDEFGH23456723"],
    "github-token": [
        *(prefix + LETTERS[:36] for prefix in ("ghp_", "gho_", "ghu_", "ghs_", "ghr_")),
        "github_" + "pat_" + LETTERS[:22] + "_" + LETTERS[:59],
    ],
    "gitlab-token": ["glpat-" + LETTERS[:20]],
    "slack-token": [
        *(
            kind + "-123456789012-1234567890123-" + LETTERS[:24]
            for kind in ("xoxb", "xoxp", "xoxe")
        ),
        "xapp-" + "1-A0123456789-1234567890123-" + "0123456789abcdef" * 4,
    ],
    "stripe-key": ["sk_live_" + LETTERS[:24], "rk_test_" + LETTERS[:24], "whsec_" + LETTERS[:32]],
    "google-api-key": ["AIza" + LETTERS[:35]],
    "anthropic-key": ["sk-ant-" + "api03-" + LETTERS[:80] + "-" + LETTERS[:6] + "AA"],
    "openai-key": [
        "sk-proj-" + LETTERS[:40] + "_" + LETTERS[:10],
        "sk-" + LETTERS[:20] + "T3Blbk" + "FJ" + LETTERS[:20],
    ],
    "google-oauth-token": ["ya29." + "a0" + LETTERS[:60]],
    "google-oauth-secret": ["GOCSPX-" + LETTERS[:28]],
    "npm-token": ["npm_" + LETTERS[:36]],
    "pypi-token": [
        "pypi-" + "AgEIcHlwaS5vcmc" + LETTERS[:100],
        "pypi-" + "AgENdGVzdC5weXBpLm9yZw" + LETTERS[:100],
    ],
    "huggingface-token": ["hf_" + LETTERS[:34]],
    "jwt": [JWT],
}
AROUND = ["{}", "KEY={}", 'key: "{}",', "({})", "'{}'.", "a {} b", "é{}é", "{}\n", "x={}&y=1"]
# Escapes of JSON, of addresses and of a terminal: their last letter touches the token.
AROUND += [
    r"a\n{}\n",
    r"a\t{}\"",
    r"k\u003d{}\u0026",
    "k%3D{}%26",
    "\x1b[32m{}\x1b[0m",
    "\x1b[1;31m{}",
]


@pytest.mark.parametrize("kind", TOKENS)
def test_tokens_are_replaced_in_any_surroundings(kind: str) -> None:
    wrong = [
        text
        for token in TOKENS[kind]
        for around in AROUND
        if redact(text := around.format(token)) != around.format(f"[REDACTED:{kind}]")
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Authorization: Bearer abcdef123456", "Authorization: Bearer [REDACTED:authorization]"),
        (
            "-H 'authorization: basic dXNlcjpwYXNz'",
            "-H 'authorization: basic [REDACTED:authorization]'",
        ),
        (
            '{"Authorization": "Bearer abcdef123456"}',
            '{"Authorization": "Bearer [REDACTED:authorization]"}',
        ),
        (f"Authorization: Bearer {JWT}", "Authorization: Bearer [REDACTED:authorization]"),
        ("x-api-key: abcdef123456", "x-api-key: [REDACTED:api-key]"),
        ("postgres://ann:s3cret!@db:5432/x", "postgres://ann:[REDACTED:password]@db:5432/x"),
        ("redis://:s3cret@localhost", "redis://:[REDACTED:password]@localhost"),
        (
            "aws_secret_access_key = " + LETTERS[:40],
            "aws_secret_access_key = [REDACTED:aws-secret-key]",
        ),
        (
            json.dumps(json.dumps({"SecretAccessKey": LETTERS[:40]})),
            r'"{\"SecretAccessKey\": \"[REDACTED:aws-secret-key]\"}"',
        ),
        (
            "AWS_SESSION_TOKEN=" + LETTERS[:160],
            "AWS_SESSION_TOKEN=[REDACTED:aws-session-token]",
        ),
        (
            json.dumps(json.dumps(json.dumps({"authorization": "Bearer abcdef123456"}))),
            json.dumps(
                json.dumps(json.dumps({"authorization": "Bearer [REDACTED:authorization]"}))
            ),
        ),
        (
            "//registry.npmjs.org/:_authToken=0123abcd-0123",
            "//registry.npmjs.org/:_authToken=[REDACTED:npm-token]",
        ),
        (
            "https://x-access-token:" + TOKENS["github-token"][3] + "@github.com/a/b.git",
            "https://x-access-token:[REDACTED:github-token]@github.com/a/b.git",
        ),
        (
            "https://hooks.slack.com/services/" + "T00000000/B00000000/" + LETTERS[:24],
            "https://hooks.slack.com/services/[REDACTED:slack-webhook]",
        ),
    ],
)
def test_credentials_are_replaced_without_their_names(text: str, expected: str) -> None:
    assert redact(text) == expected


@pytest.mark.parametrize("label", ["", "RSA ", "EC ", "OPENSSH ", "ENCRYPTED "])
def test_private_keys_are_replaced(label: str) -> None:
    begin, end = f"-----BEGIN {label}PRIVATE KEY-----", f"-----END {label}PRIVATE KEY-----"
    key = f"{begin}\n{KEY_BODY}\n{end}"
    numbered = "\n".join(f"{number:6}→{line}" for number, line in enumerate(key.splitlines(), 1))
    replaced = "[REDACTED:private-key]"
    assert redact(f"a\n{key}\nb") == f"a\n{replaced}\nb"
    assert redact(numbered) == f"     1→{replaced}"
    assert redact(json.dumps(key)) == f'"{replaced}"'
    # The end is missing, as after `head -n 3`.
    assert redact(f"{begin}\n{KEY_BODY}\nplain text") == f"{replaced}\nplain text"
    assert redact(key + key) == replaced * 2
    source_code = f'BEGIN = "{begin}"\nEND = "{end}"'
    assert redact(source_code) == source_code


@pytest.mark.parametrize(
    "text",
    [
        "git commit 5d48bd7a1b2c3d4e5f60718293a4b5c6d7e8f901",
        "sha256:" + "0123456789abcdef" * 4,
        "the task-list of sk-learn, disk-usage, and ask-me",
        "https://example.org:8080/a@b?c=d",
        "ssh://git@github.com:22/x.git and git@github.com:a/b.git",
        "https://user:$TOKEN@host and https://user:<password>@host",
        "https://user:[REDACTED:password]@host",
        "Authorization: required. authorization = None",
        "-----BEGIN CERTIFICATE-----\n" + KEY_BODY + "\n-----END CERTIFICATE-----",
        "-----BEGIN PUBLIC KEY-----\n" + KEY_BODY + "\n-----END PUBLIC KEY-----",
        "AKIAIOSFODNN7EXAMPLEAKIAIOSFODNN7EXAMPLE",
        "eyJhbGci.eyJ.x",
        "//registry.npmjs.org/:_authToken=${NPM_TOKEN}",
        "fetch(url, {headers: {Authorization: `Bearer ${token}`}})",
        "AWS_SESSION_TOKEN=$TOKEN and aws_secret_access_key = <your key>",
        "pk_live_" + LETTERS[:24] + " is public, as is pypi-mirror-of-something-with-a-long-name",
        "ya29.short and the xoxb-prefix of tokens, sk-ant-prefix",
        "cone@1.0.0::chat:msg-550e8400-e29b-41d4-a716-446655440000:user:bob",
        "ghp_short npm_config_registry hf_hub_download sk_test_x AIzaShort",
    ],
)
def test_ordinary_text_stays(text: str) -> None:
    assert redact(text) == text


@given(st.text(max_size=300))
def test_any_text_stays_unless_it_has_a_known_prefix(text: str) -> None:
    if not re.search("-----BEGIN|://|uthorization|UTHORIZATION|eyJ|_|-|AKIA|ASIA|AIza", text):
        assert redact(text) == text


@given(st.binary(max_size=400), st.uuids())
def test_encoded_data_and_ids_stay(data: bytes, uuid: UUID) -> None:
    encoded = base64.b64encode(data).decode()
    for text in (encoded, data.hex(), str(uuid), f"data:image/png;base64,{encoded}"):
        assert redact(text) == text


@given(st.integers(0, 200), st.integers(0, 200))
def test_a_token_inside_encoded_data_stays(before: int, after: int) -> None:
    for token in ("AKIA" + "ABCDEFGHIJKLMNOP", "AIza" + LETTERS[:35]):
        text = LETTERS[: before + 1] + token + LETTERS[: after + 1]
        assert redact(text) == text


def test_all_texts_of_json_are_searched() -> None:
    token = TOKENS["google-api-key"][0]
    value = {"a": [{"b": f"x {token}"}, 1, None, True], "Authorization": f"Bearer {LETTERS[:5]}"}
    assert redact_json(value) == {
        "a": [{"b": "x [REDACTED:google-api-key]"}, 1, None, True],
        "Authorization": "Bearer [REDACTED:authorization]",
    }


def test_json_that_is_nested_too_deep_is_replaced() -> None:
    value: Any = "x"
    for _ in range(5000):
        value = [value]
    assert "[REDACTED:nested]" in str(redact_json(value))


def test_many_beginnings_of_secrets_take_little_time() -> None:
    # Fails by its time limit if a pattern is searched from every place.
    for hint in (
        "://",
        "://a:",
        "sk-",
        "eyJhbGci",
        "-----BEGIN ",
        "uthorization: Bearer ",
        "x-api-key",
    ):
        text = hint * (200_000 // len(hint))
        assert len(redact(text)) > 0
