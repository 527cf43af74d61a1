import io
import os
import subprocess
import sys

import pytest

import minitensor as mt


def test_show_config(capsys):
    mt.show_config()
    lines = dict(line.split(":", 1) for line in capsys.readouterr().out.splitlines())
    assert lines["minitensor"].strip() == mt.__version__
    assert lines["threads"].strip() == str(mt.get_num_threads())
    assert lines["instruction set"].split()[0] in {"baseline", "avx2", "avx512"}
    assert {"Python", "NumPy", "compiler", "build", "llvmlite", "JIT", "JIT flags"} <= set(lines)


def test_show_config_of_a_recording():
    out = io.StringIO()
    with mt.jit.options(min_cluster_size=2), mt.jit_scope():
        mt.show_config(out)
    assert "recording" in out.getvalue()
    assert "--min_cluster_size=2" in out.getvalue()


def test_show_config_loads_nothing():
    code = "import sys, minitensor as mt; mt.show_config(); sys.exit(bool({'numpy', 'llvmlite'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("MT_ISA", "sse2", "MT_ISA=sse2: unknown instruction set; use baseline, avx2 or avx512"),
        ("MT_NUM_THREADS", "many", "MT_NUM_THREADS"),
        ("MT_WAKE_THREADS", "never", "MT_WAKE_THREADS=never: expected demand or always"),
    ],
)
def test_a_wrong_setting_is_an_error_of_the_import(name, value, message):
    process = subprocess.run(
        [sys.executable, "-c", "import minitensor"], env={**os.environ, name: value}, capture_output=True, text=True
    )
    assert process.returncode == 1
    assert message in process.stderr.splitlines()[-1]
