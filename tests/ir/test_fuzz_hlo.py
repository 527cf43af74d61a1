"""A sample of what `scripts/fuzz_hlo` does."""

from __future__ import annotations

import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from fuzz.hlo import MORE, corpus, examine, mutate  # noqa: E402


def test_mutated_text_is_read_or_refused_in_words() -> None:
    texts, counts = corpus(), Counter[str]()
    for seed in range(600):
        rng = random.Random(seed)
        counts[examine(mutate(rng.choice(texts), texts, rng))] += 1
    # All three happen, or the mutations test nothing.
    assert min(counts["parse"], counts["verify"], counts["valid"]) > 10


@pytest.mark.parametrize("text", [*corpus()[::7], *MORE])
def test_what_mutations_begin_with_is_valid(text: str) -> None:
    assert examine(text) == "valid"
    if text in MORE[1:]:  # without a loop
        assert examine(text, compiled=True) == "ran"


def test_mutated_modules_run_as_they_are_evaluated() -> None:
    """In a process of its own, which must survive."""
    command = [sys.executable, str(ROOT / "scripts" / "fuzz_hlo"), "250", "--seed", "1000", "--compile"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr[-200:]
    assert ", ran " in done.stdout
