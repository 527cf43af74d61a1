"""What setup.py compiles, for which instruction sets, and what it says."""

import os
import re
import runpy
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.skipif(not (ROOT / "setup.py").is_file(), reason="not in a checkout")


@pytest.fixture
def build(monkeypatch):
    setuptools = pytest.importorskip("setuptools")
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(setuptools, "setup", lambda **arguments: None)
    return runpy.run_path(str(ROOT / "setup.py"))


def test_files_are_compiled_for_each_instruction_set_or_for_one(build):
    sources = [Path(name) for name in build["sources"]]

    def units(machine, isas):
        return {(str(source), isa) for source in sources for isa in build["targets"](source, machine, isas)}

    loops = {source for source, isa in units("x86_64", ["avx2"]) if isa == "avx2" and "gemm" not in source}
    assert {"csrc/kernels/cpu/reduce/loops.cpp", "csrc/kernels/cpu/elementwise/loops.cpp"} <= loops
    everything = units("x86_64", ["avx2", "avx512"])
    assert {source for source, _ in everything} == {str(source) for source in sources}
    assert {source for source, isa in everything if isa == "baseline"} >= loops
    host = units("x86_64", ["avx2"])
    assert everything - host == {unit for unit in everything if unit[1] == "avx512"} != set()
    arm = units("aarch64", [])
    assert host - arm == {unit for unit in host if unit[1] == "avx2" or unit[0].endswith("_x86.cpp")} != set()
    assert ("csrc/kernels/cpu/reduce/loops.cpp", "baseline") in arm


def test_neighbours_of_one_folder_are_compiled_as_one_file(build):
    groups = build["groups"](build["sources"])
    assert [str(source) for group in groups for source in group] == build["sources"]
    together = [group for group in groups if len(group) > 1]
    assert {group[0].parts[1] for group in together} == {"autograd", "bindings", "distributed", "trace"}
    for group in together:
        assert len({source.parent for source in group}) == 1
        assert sum(source.stat().st_size for source in group) <= build["GROUP_SIZE"]
        assert {isa for source in group for isa in build["targets"](source, "x86_64", ["avx2"])} == {""}


DEFINITION = re.compile(
    r"(?:template <.*> )?(?:(?:class|struct|enum class|using|union) (?P<type>\w+)"
    r"|[\w:<>,*& ]*?\b(?P<name>\w+)(?P<parameters>\([^;{]*\)(?: const)?)? ?(?:\{|=|;))"
)


def unnamed_names(text):
    """The types, variables and functions, these with the types of their parameters, of a file's unnamed namespaces."""
    for part in re.split(r"^namespace \{$", text, flags=re.M)[1:]:
        for line in part.partition("\n}  // namespace\n")[0].splitlines():
            found = DEFINITION.match(line)
            if found and line[0] not in " #/}":
                parameters = re.sub(r"\b\w+(?=[,)])", "", found["parameters"] or "")
                yield found["type"] or found["name"] + parameters


def clashes(files):
    """The names that two of these texts, by name, have in their unnamed namespaces."""
    places = {}
    for file, text in files.items():
        for name in set(unnamed_names(text)):
            places.setdefault(name, []).append(file)
    return {name: where for name, where in places.items() if len(where) > 1}


def test_files_compiled_as_one_have_different_names(build):
    for group in build["groups"](build["sources"]):
        assert clashes({str(source): source.read_text() for source in group}) == {}


def test_a_clash_of_names_is_found():
    one = "namespace mt {\nnamespace {\n\nvoid run(Call& call) {\n    a();\n}\nclass Given {\n};\n\n}  // namespace\n"
    most = "namespace {\nconstexpr int kMost = 2;\n}  // namespace\n"
    other = f"namespace {{\nvoid run(Call& c) {{}}\nvoid run(int n) {{}}\n}}  // namespace\nclass Given {{\n{most}"
    assert clashes({"one": one, "other": other}) == {"run(Call& )": ["one", "other"]}
    assert clashes({"one": one, "other": one}).keys() == {"run(Call& )", "Given"}
    assert clashes({"one": "namespace {\nconstexpr int kMost = 2;\n}  // namespace\n", "other": other}).keys() == {
        "kMost"
    }


@pytest.mark.exhaustive
@pytest.mark.parametrize("folder", ["autograd", "bindings", "distributed", "trace"])
def test_files_compiled_as_one_compile(folder, build, tmp_path):
    if shutil.which("g++") is None:
        pytest.skip("there is no g++")
    defines = ['-DMT_VERSION="0"', "-DMT_BUILT_AVX2"] if os.uname().machine == "x86_64" else ['-DMT_VERSION="0"']
    command = ["g++", *build["FLAGS"], "-isystem", sysconfig.get_path("include"), *defines, "-fsyntax-only"]
    groups = [group for group in build["groups"](build["sources"]) if len(group) > 1]
    # Every second one: the build has compiled all, with what is compiled before.
    for number, group in enumerate(groups[::2]):
        if group[0].parts[1] == folder:
            file = tmp_path / f"{number}.cpp"
            file.write_text("".join(f'#include "{source.relative_to("csrc")}"\n' for source in group))
            done = subprocess.run([*command, str(file)], capture_output=True, text=True)
            assert done.returncode == 0, f"{[str(source) for source in group]}: {done.stderr}"


def test_a_file_that_comes_to_a_group_or_leaves_it_is_compiled(build, monkeypatch, tmp_path):
    if shutil.which("g++") is None:
        pytest.skip("there is no g++")
    monkeypatch.chdir(tmp_path)
    sources = [Path("csrc/trace") / name for name in ("a.cpp", "b.cpp", "c.cpp")]
    sources[0].parent.mkdir(parents=True)
    for source in sources:
        source.write_text(f"int {source.stem}() {{ return 1; }}\n")
    base = build["Precompiled"](["g++", "-I", "csrc"])
    base.folder.mkdir(parents=True)
    base.header.write_text("")

    def group(*parts):
        return build["Group"]([build["Unit"](part, "", base, []) for part in parts])

    assert group(*sources).compile()
    assert group(*sources).is_fresh()
    for parts in (sources[:2], sources):
        assert not group(*parts).is_fresh()
        assert group(*parts).compile()
        assert group(*parts).is_fresh()


def test_which_instruction_sets_are_built(build):
    isas = build["isas_to_build"]
    assert isas("all", "x86_64") == ["avx2", "avx512"]
    assert isas("baseline", "x86_64") == []
    assert isas("avx512,baseline", "x86_64") == ["avx512"]
    assert isas("all", "aarch64") == []
    with pytest.raises(build["CompileError"], match="MT_ISA_BUILD=avx2,sse9: sse9 is not known for x86_64; there are "):
        isas("avx2,sse9", "x86_64")
    with pytest.raises(build["CompileError"], match=r"avx2 is not known for aarch64; there are host, all, baseline$"):
        isas("avx2", "aarch64")


@pytest.mark.parametrize(
    ("flags", "best"),
    [
        ("fpu avx2 fma f16c", ["avx2"]),
        ("fpu avx2 fma f16c avx512f avx512vl avx512dq avx512bw", ["avx512"]),
        ("fpu avx2 fma f16c avx512f avx512vl", ["avx2"]),
        ("fpu avx2 fma", []),
    ],
)
def test_the_best_instruction_set_of_the_host(build, monkeypatch, flags, best):
    monkeypatch.setattr(Path, "read_text", lambda path: f"processor : 0\nflags\t\t: {flags}\nbugs : none\n")
    machine = build["isas_to_build"].__globals__["os"].uname().machine
    assert build["isas_to_build"]("host", machine) == (best if machine == "x86_64" else [])
    # Another machine's compiler knows nothing of this one.
    assert build["isas_to_build"]("host", "riscv64") == []


def test_a_new_version_compiles_one_file(build):
    defines = {"MT_VERSION": '"1.2"', "MT_BUILT_AVX2": "1"}
    flags = {name: build["defines_for"](Path(name), defines) for name in build["sources"]}
    assert {name for name, found in flags.items() if '-DMT_VERSION="1.2"' in found} == {"csrc/bindings/module.cpp"}
    assert "-DMT_BUILT_AVX2=1" in flags["csrc/core/isa.cpp"]
    # A header that mentioned one would be seen without it.
    assert not [path for path in (ROOT / "csrc").rglob("*.h") if "ifdef MT_BUILT" in path.read_text()]


def test_commands_name_no_folder(build):
    assert str(ROOT) not in " ".join(build["FLAGS"])
    assert not any(Path(name).is_absolute() for name in build["sources"])


def test_a_compiler_that_is_not_there(build):
    with pytest.raises(build["CompileError"], match=r"with no-such-compiler, and that cannot be run: .*CXX chooses"):
        build["target_machine"](["no-such-compiler"])


def test_the_machine_of_a_compiler(build):
    assert build["target_machine"]([sys.executable, "-c", "print('riscv64-unknown-linux-gnu')"]) == "riscv64"
