"""Random programs in which calls fail when what is recorded runs, beside a model of what is to be left.

`python tests/fuzz/faults.py FIRST COUNT`. A program is a list of statements, each run in a try of its own; what one
makes has a name of its own.
"""

import itertools
import random
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

if __name__ == "__main__":  # the modules of the tests are found from their folder
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from recording import recorded

import minitensor as mt

SIZE = 8
OPTIONS = ({}, {"min_cluster_size": 100}, {"auto_jit": 1}, {"enable_lazy_compilation": False})


def program(seed):
    """The statements of a program, and which names hold tensors that it begins with."""
    r = random.Random(seed)
    begins = [f"t{i}" for i in range(3)]
    names, statements, numbers = list(begins), [], itertools.count(len(begins))

    def any_of():
        return r.choice(names)

    def made(text):
        name = f"t{next(numbers)}"
        statements.append(f"{name} = {text}")
        names.append(name)

    for _ in range(r.randrange(6, 25)):
        kind = r.randrange(16)
        x, y = any_of(), any_of()
        if kind < 3:
            made(r.choice([f"{x} + {y}", f"{x} * 2.5 - {y}", f"{x}.tanh()", f"mt.where({x} > 0, {x}, {y})"]))
        elif kind == 3:
            made(r.choice([f"{x}.sum() * {y}", f"{x}.cumsum(0)", f"{x}.flip(0)", f"{x}[ORDER]", f"{x}.softmax(0)"]))
        elif kind == 4:
            made(r.choice([f"{x}.view(2, 4).T.reshape(8)", f"{x}.view(8)", f"{x}.clone()", f"{x}.expand(8)"]))
        elif kind < 8:
            statements.append(r.choice([f"{x}.add_({y})", f"{x}.mul_(1.5)", f"{x}.sin_()", f"{x}.sub_({y}, alpha=3)"]))
        elif kind == 8:
            statements.append(r.choice([f"{x}.copy_({y})", f"{x}.fill_(3)", f"{x}.zero_()"]))
        elif kind < 11:
            written = [
                f"{x}[2:5].add_({y}[1:4])",
                f"{x}[::2] = {y}[1::2]",
                f"{x}[3] = 5",
                f"{x}.index_add_(0, ORDER, {y})",
            ]
            statements.append(r.choice(written))
        elif kind < 13:
            made(
                r.choice(
                    [f"{x}.index_select(0, BAD).expand(8).clone()", f"{x}[BAD + 1] + {y}", f"(ONES // ZEROS) * {x}"]
                )
            )
        elif kind == 13:
            statements.append(r.choice([f"{x}.index_add_(0, BAD, {y}[:1])", f"{x}[1:7].index_add_(0, BAD, {y}[:1])"]))
        elif kind == 14:
            statements.append(f"{x}.sum().item()")
        else:
            statements.append(f"del {x}")
            if len(names) > 4:
                names.remove(x)
            else:
                statements.pop()
    return begins, statements


def globals_of(begins, seed):
    mt.manual_seed(seed)
    space = {name: mt.randn(SIZE) for name in begins}
    constants = {
        "mt": mt,
        "ORDER": mt.tensor([3, 1, 0, 2, 7, 6, 5, 4]),
        "BAD": mt.tensor([99]),
        "ONES": mt.ones(SIZE, dtype=mt.int64),
        "ZEROS": mt.zeros(SIZE, dtype=mt.int64),
    }
    return space, constants


@dataclass
class Written:
    """What a statement of this number left in a storage: nothing, if it depends on the one that failed at `cause`."""

    number: int
    values: mt.Tensor | None
    cause: int = -1


@dataclass
class Box:
    """A storage: what it held since the last read of a value."""

    log: list[Written] = field(default_factory=list)

    @property
    def now(self):
        return self.log[-1]

    def settle(self):
        """At a look: what depends on a failure is what it was when that came. False if it was not there."""
        log = self.log
        while log and log[-1].values is None:
            while log and log[-1].values is None:
                cause = log.pop().cause
            while log and log[-1].number > cause:
                log.pop()
        self.log = [Written(-1, log[-1].values)] if log else []
        return bool(log)


NAME = re.compile(r"\bt\d+\b")
ALIAS = re.compile(r"(t\d+) = (t\d+)\.(?:view|expand)\(8\)")
OVERWRITES = re.compile(r"t\d+\.(copy_|fill_|zero_)")
ERRORS = (IndexError, ZeroDivisionError)


def expected(seed):
    """What every name holds at the end."""
    begins, statements = program(seed)
    space, constants = globals_of(begins, seed)
    boxes = {name: Box([Written(-1, t)]) for name, t in space.items()}

    def settle():
        gone = [name for name, box in boxes.items() if not box.settle()]
        for name in gone:
            del boxes[name]

    for number, statement in enumerate(statements):
        names = NAME.findall(statement)
        made = names.pop(0) if re.match(r"t\d+ = ", statement) else None
        if any(name not in boxes for name in names):
            continue  # the call itself raises
        if statement.startswith("del "):
            del boxes[names[0]]
        elif alias := ALIAS.fullmatch(statement):
            boxes[alias[1]] = boxes[alias[2]]
        elif statement.endswith(".item()"):
            settle()
        else:
            reads = names[1:] if OVERWRITES.match(statement) else names
            causes = [boxes[name].now.cause for name in reads if boxes[name].now.values is None]
            box = Box() if made else boxes[names[0]]
            values = None
            if not causes:
                filled = {id(boxes[name]): boxes[name].now.values for name in names}
                if not made:
                    before = filled[id(box)]
                    filled[id(box)] = mt.zeros(SIZE) if before is None else before.clone()
                local = constants | {name: filled[id(boxes[name])] for name in names}
                try:
                    exec(statement, local)
                    values = local[made] if made else filled[id(box)]
                except ERRORS:
                    causes = [number]
            box.log.append(Written(number, values, min(causes, default=-1)))
            if made:
                boxes[made] = box
    settle()
    return {name: box.now.values.tolist() for name, box in boxes.items()}


def recorded_run(seed, options):
    begins, statements = program(seed)
    names, constants = globals_of(begins, seed)
    space = constants | names
    try:
        with recorded(**options):
            for statement in statements:
                try:
                    exec(statement, space)
                except (*ERRORS, NameError):
                    pass
                except RuntimeError as error:
                    if "never computed" not in str(error):
                        raise
    except ERRORS:
        pass
    found = {}
    for name in space:
        if NAME.fullmatch(name):
            try:
                found[name] = space[name].tolist()
            except RuntimeError as error:
                if "never computed" not in str(error):
                    raise
    return found


def difference(seed, ways=OPTIONS):
    """How a program differs from what is expected; None if it doesn't."""
    wanted = expected(seed)
    for options in ways:
        got = recorded_run(seed, options)
        for name in sorted(wanted.keys() | got.keys()):
            if repr(got.get(name)) != repr(wanted.get(name)):
                text = "\n".join(program(seed)[1])
                return f"seed {seed}, {options}: {name} is {got.get(name)}, not {wanted.get(name)}\n{text}"
    return None


if __name__ == "__main__":
    first, count = (int(argument) for argument in sys.argv[1:])
    for seed in range(first, first + count):
        found = difference(seed)
        if found:
            print(found)
            sys.exit(1)
    print(f"{count} programs, no difference")
