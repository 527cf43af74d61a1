import shlex
from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitensor_jit.flags import FLAGS, FlagError, JitOptions, help_text, parse_flags, read_environment


def test_nothing_gives_the_defaults():
    assert parse_flags("") == parse_flags(" \t\n") == JitOptions()
    assert JitOptions().auto_jit == 0
    assert JitOptions().min_cluster_size == 4


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("--auto_jit=2", "auto_jit", 2),
        ("--cpu_global_jit", "cpu_global_jit", True),
        ("--cpu_global_jit=true", "cpu_global_jit", True),
        ("--cpu_global_jit=False", "cpu_global_jit", False),
        ("--explain=1", "explain", True),
        ("--fast_math --fast_math=0", "fast_math", False),
        ("--min_cluster_size=1", "min_cluster_size", 1),
        ("--min_cluster_size=+08", "min_cluster_size", 8),
        ("--max_cluster_size=2147483647", "max_cluster_size", 2147483647),
        ("--clustering_fuel=0", "clustering_fuel", 0),
        ("--dump_to='/tmp/a folder'", "dump_to", "/tmp/a folder"),
        ('--dump_to="x=y"', "dump_to", "x=y"),
        ("--dump_to", "dump_to", "-"),
        ("--dump_hlo_pass_re=cse|^fusion$", "dump_hlo_pass_re", "cse|^fusion$"),
        ("--verify=0.25", "verify", 0.25),
        ("--verify=1", "verify", 1.0),
        ("--verify=1e-05", "verify", 1e-5),
        ("--dump_to=/tmp/Füße", "dump_to", "/tmp/Füße"),
        ("--ops_to_cluster=PW,sum", "ops_to_cluster", ("PW", "sum")),
        ("--ops_to_cluster=", "ops_to_cluster", ()),
        ("--cluster_exclude_ops=exp", "cluster_exclude_ops", ("exp",)),
        ("--vmodule=*=1,code*=2", "vmodule", ("*=1", "code*=2")),
        ("--vmodule=xla_compiler=2,pass_manager=1", "vmodule", ("xla_compiler=2", "pass_manager=1")),
    ],
)
def test_values(text, name, value):
    assert getattr(parse_flags(text), name) == value


def test_of_a_flag_given_twice_the_last_counts():
    assert parse_flags("--auto_jit=1 --auto_jit=2").auto_jit == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("--autojit=2", r"unknown flag --autojit in MT_JIT_FLAGS; did you mean --auto_jit\?"),
        ("--AUTO-JIT=2", r"unknown flag --AUTO-JIT .* did you mean --auto_jit"),
        ("--cluster_size=3", r"did you mean --m.._cluster_size or --m.._cluster_size"),
        ("--zzzz", r"unknown flag --zzzz in MT_JIT_FLAGS; the flags are --auto_jit, .*--help"),
        ("--=1", r"unknown flag --"),
        ("--auto_jit", r"--auto_jit needs a value: --auto_jit=\{0,1,2\} \(one of 0, 1, 2\)"),
        ("--auto_jit=", r"--auto_jit=: expected one of 0, 1, 2, got ''"),
        ("--auto_jit=3", r"--auto_jit=3: expected one of 0, 1, 2, got '3'"),
        ("--auto_jit=true", r"expected one of 0, 1, 2, got 'true'"),
        ("--auto_jit 2", r"--auto_jit needs a value"),
        ("-auto_jit=1", r"'-auto_jit=1' in MT_JIT_FLAGS is not a flag: .* did you mean --auto_jit=1\?"),
        ("auto_jit=1", r"'auto_jit=1' in MT_JIT_FLAGS is not a flag: .* did you mean --auto_jit=1\?"),
        ("--", r"'--' in MT_JIT_FLAGS is not a flag"),
        ("--explain=maybe", r"--explain=maybe: expected true or false, got 'maybe'"),
        ("--explain=", r"--explain=: expected true or false"),
        ("--min_cluster_size=0", r"--min_cluster_size=0: expected a whole number from 1 to 2147483647, got '0'"),
        ("--min_cluster_size=1.5", r"expected a whole number"),
        ("--min_cluster_size=1_000", r"expected a whole number"),
        ("--min_cluster_size=\u0663", r"expected a whole number"),
        ("--clustering_fuel=-1", r"expected a whole number from 0"),
        ("--clustering_fuel=" + "9" * 5000, r"expected a whole number from 0"),
        ("--max_cluster_size=3", r"--max_cluster_size=3 is below --min_cluster_size=4"),
        ("--hlo_graph_path", r"--hlo_graph_path needs a value: --hlo_graph_path=DIR"),
        ("--generate_hlo_graph", r"needs a value: --generate_hlo_graph=REGEX"),
        ("--verify=2", r"--verify=2: expected a number from 0 to 1, got '2'"),
        ("--verify=nan", r"--verify=nan: expected a number from 0 to 1"),
        ("--verify=1_0", r"expected a number from 0 to 1"),
        ("--generate_hlo_graph=(", r"--generate_hlo_graph=\(: expected a regular expression, got '\('"),
        ("--dump_to=", r"--dump_to=: expected the path of a folder"),
        ("--ops_to_cluster=PW,tanhh", r"--ops_to_cluster: there is no 'tanhh'; did you mean tanh"),
        ("--cluster_exclude_ops=,", r"--cluster_exclude_ops: there is no ''; expected names with commas"),
        ("--vmodule=xla_compilr=2", r"--vmodule: there is no 'xla_compilr'; did you mean xla_compiler"),
        ("--vmodule=y*=2", r"--vmodule: there is no 'y\*'"),
        ("--vmodule=xla_compiler", r"expected NAME=LEVEL with a level from 0 to 9, got 'xla_compiler'"),
        ("--dump_to='unclosed", r"MT_JIT_FLAGS: no closing quotation"),
        ("--explain \udcff\udcfe", r"not valid UTF-8: byte 0xff at character 10"),
        ("--dump_to=\ud800", r"not valid UTF-8: lone surrogate"),
    ],
)
def test_errors_name_the_flag_the_value_and_what_was_expected(text, message):
    with pytest.raises(FlagError, match=message) as info:
        parse_flags(text)
    str(info.value).encode()  # can be printed
    assert isinstance(info.value, ValueError)


@given(st.text())
def test_any_text_gives_options_or_a_flag_error(text):
    try:
        options = parse_flags(text)
    except FlagError:
        return
    assert isinstance(options, JitOptions)


def written(value):
    return ",".join(value) if isinstance(value, tuple) else value


@given(st.lists(st.sampled_from(FLAGS)), st.data())
def test_text_is_the_inverse_of_parsing(flags, data):
    values = {
        "bool": st.booleans(),
        "fraction": st.floats(0, 1),
        "regex": st.sampled_from(["a|b", ".*", "cluster_[0-3]"]),
        "path": st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1),
        "file": st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1),
        "names": st.lists(st.sampled_from(["PW", "sum", "exp"])).map(tuple),
        "levels": st.lists(st.sampled_from(["xla_compiler=2", "pass_manager=0"])).map(tuple),
    }
    chosen = {}
    for flag in flags:
        ints = st.sampled_from(flag.choices) if flag.choices else st.integers(max(flag.minimum, 4), 99)
        chosen[flag.name] = data.draw(values.get(flag.type, ints))
    if chosen.get("max_cluster_size", 99) < chosen.get("min_cluster_size", 4):
        del chosen["max_cluster_size"]
    options = JitOptions(**chosen)
    assert parse_flags(options.text()) == options
    assert parse_flags(" ".join(shlex.quote(f"--{name}={written(value)}") for name, value in chosen.items())) == options


def test_replace_checks_like_parsing():
    options = JitOptions().replace(auto_jit=1, dump_to="x")
    assert (options.auto_jit, options.dump_to) == (1, "x")
    assert options.replace(dump_to=None) == JitOptions(auto_jit=1)
    for changes in [{"auto_jit": 5}, {"auto_jit": True}, {"explain": 1}, {"min_cluster_size": None}, {"dump_to": ""}]:
        with pytest.raises(FlagError, match=next(iter(changes))):
            options.replace(**changes)
    with pytest.raises(FlagError, match="there is no option 'autojit'; did you mean auto_jit"):
        options.replace(autojit=1)


def test_options_are_part_of_keys():
    assert len({JitOptions(), JitOptions(auto_jit=0), JitOptions(auto_jit=1)}) == 2
    with pytest.raises(AttributeError):
        JitOptions().auto_jit = 1


def test_every_flag_is_in_the_help_and_in_the_documentation():
    assert [flag.name for flag in FLAGS] == [field.name for field in fields(JitOptions)]
    for flag in FLAGS:
        assert flag.usage in help_text()
        assert flag.help in " ".join(help_text().split())
        assert f"`{flag.name}`: {flag.help}" in JitOptions.__doc__


def test_environment():
    assert read_environment({}) == JitOptions()
    assert read_environment({"MT_JIT_FLAGS": "--auto_jit=2"}).auto_jit == 2


def test_help_prints_and_ends(capsys):
    with pytest.raises(SystemExit) as info:
        read_environment({"MT_JIT_FLAGS": "--auto_jit=2 --help"})
    assert info.value.code == 0
    assert capsys.readouterr().out == help_text()
