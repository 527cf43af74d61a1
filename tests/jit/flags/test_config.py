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
    used, _, built = lines["instruction set"].partition("; built: ")
    assert built.split(", ") == mt._C.build_config()["built_isas"]
    assert used.split()[0] in built.split(", ")
    if not mt._C.build_config()["sanitizer"]:
        assert lines["build"].split(",")[0].strip() == "optimized"
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


def test_an_instruction_set_that_was_not_built():
    config = mt._C.build_config()
    isas = ["baseline", "avx2", "avx512"]
    assert config["built_isas"] == [isa for isa in isas if isa in config["built_isas"]]
    assert config["built_isas"][0] == "baseline"
    here = isas[: isas.index(config["detected_isa"]) + 1]
    for isa in isas:
        process = subprocess.run(
            [sys.executable, "-c", "import minitensor as mt; print(mt._C.build_config()['isa'])"],
            env={**os.environ, "MT_ISA": isa},
            capture_output=True,
            text=True,
        )
        if isa not in here:
            expected = f"RuntimeError: MT_ISA={isa}: this CPU does not support it; the best it has is {here[-1]}"
        elif isa not in config["built_isas"]:
            built = ", ".join(config["built_isas"])
            expected = (
                f"RuntimeError: MT_ISA={isa}: this build of minitensor has only {built}; "
                "build it with MT_ISA_BUILD=all to have every one"
            )
        else:
            assert process.stdout == f"{isa}\n"
            continue
        assert process.stderr.splitlines()[-1] == expected


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
