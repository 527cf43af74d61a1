"""The page in a browser: it opens without errors, panes follow, search finds, keys work; skipped without Chromium."""

import base64
import gzip
import html
import json
import os
import random
import re
import shutil
import subprocess
from pathlib import Path

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--window-size=1280,800",
    "--virtual-time-budget=60000",
)

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium")

# Runs in the page, and leaves what it found in an attribute of the document.
SCRIPT = f"<script>\n{(Path(__file__).parent / 'look.js').read_text()}</script>"


def opened(page, tmp_path, script):
    """What the script found in the page."""
    noise = random.Random(1)
    texts = [b"", b"a", b"abc" * 5000, bytes(noise.randrange(256) for _ in range(3000)), bytes(range(256)) * 20]
    tests = [
        [base64.b64encode(gzip.compress(text, level, mtime=0)).decode(), base64.b64encode(text).decode()]
        for text in texts
        for level in (0, 1, 9)
    ]
    path = tmp_path / "page.html"
    path.write_text(page.replace("</body>", f"<script>const TESTS = {json.dumps(tests)};</script>{script}</body>"))
    command = [str(CHROMIUM), *FLAGS, f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", path.as_uri()]
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}  # no sanitizer's
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)
    found = re.search(r'data-found="([^"]*)"', done.stdout)
    assert found is not None, done.stderr[-2000:]
    return json.loads(html.unescape(found[1]))


def test_the_page_works(made, tmp_path):
    found = opened(made("raise")[0].read_text(), tmp_path, SCRIPT)
    assert found["problems"] == []
    assert found["title"] == "program.py: report"
    assert all(size > 80 for size in found["sections"].values()), found["sections"]
    assert found["cut"]["kernels"] == 0  # every column is seen at the width of a small laptop
    assert found["raw"] == []  # what is quoted in a fix is shown as code
    assert found["key3"]
    assert all(found["followed"].values()), found["followed"]
    assert found["code"]
    assert all(found["exact"]), found["exact"]
    assert found["arrow"] == "1"
    assert found["right"] == "HLO as lowered"
    assert found["firstStage"] == "as lowered"
    assert found["node"]
    assert found["searching"]
    assert found["results"]
    assert "softmax" in found["hit"]
    assert found["went"]
    assert "softmax" in found["wentTo"]
    assert "search" in found["help"]
    assert found["back"]
    assert found["unlabelled"] == 0
    assert found["inflated"]
