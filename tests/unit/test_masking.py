"""Secrets of known shapes are masked; everything else stays as it was."""

from __future__ import annotations

import json

import pytest

from boards.masking import masked
from boards.tasks import cleaning

A = "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0dF3hJ6"  # 36 signs
# Put together here, so that no scanner takes this file for a leak.
SECRETS = {
    "github": ("ghp_", A),
    "github, fine-grained": ("github_pat_", A),
    "gitlab": ("glpat-", A[:20]),
    "slack": ("xoxb-", "1234567890-abcdefghij"),
    "slack hook": ("hooks.slack.com/services/", "T00000000/B00000000/" + A[:24]),
    "model": ("sk-ant-", "api03-" + A),
    "stripe": ("sk_live_", A[:24]),
    "aws": ("AKIA", "ABCDEFGHIJKLMNOP"),
    "google": ("AIza", A[:35]),
    "npm": ("npm_", A),
    "jwt": ("eyJ", "hbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P"),
    "header": ("Bearer ", A),
    "webhook": ("whsec_", A),
    "url": ("postgresql://anna:", "s3cr3t!pass"),
}


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_is_masked_in_a_line_and_in_json(name):
    head, secret = SECRETS[name]
    tail = "@db.example.org/x" if name == "url" else ""
    line = f"got {head}{secret}{tail} today"
    assert masked(line) == f"got {head}…[masked]{tail} today"
    stored = cleaning.report_json({"said": line, "n": [1, True, None], secret[:3]: ""})
    assert stored["said"] == f"got {head}…[masked]{tail} today"
    assert stored["n"] == [1, True, None]
    assert secret not in json.dumps(stored)
    assert secret not in cleaning.report_line(line)
    assert secret not in cleaning.report_data({"line": line})


def test_a_private_key_is_masked_whole():
    body = "\n".join([A * 2] * 4)
    kind = "RSA PRIVATE" + " KEY"
    key = f"-----BEGIN {kind}-----\n{body}\n-----END {kind}-----"
    assert masked(f"a\n{key}\nb") == f"a\n-----BEGIN {kind}-----…[masked]\nb"
    assert cleaning.report_json({"key": key, "b": 1}) == {"key": f"-----BEGIN {kind}-----…[masked]", "b": 1}


@pytest.mark.parametrize(
    "text",
    [
        "https://example.org/a:b@c",
        "http://localhost:8000/b/desk/",
        "mail anna@example.org: hello",
        "sk-short, ghp_short, AKIA1234",
        "Bearer of news",
        "a hash 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "uuid 123e4567-e89b-12d3-a456-426614174000",
        "task-sk-1 and the risk-assessment-of-the-whole-department",
        "見出しは秘密ではない",
    ],
)
def test_ordinary_text_is_left_alone(text):
    assert masked(text) == text
    assert cleaning.report_json({"text": text}) == {"text": text}


def test_what_a_step_kept_comes_back_as_it_was():
    token = f"ghp_{A}"
    assert cleaning.report_json({"token": token}, mask=False) == {"token": token}
