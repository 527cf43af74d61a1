"""Finds what functions of a package change of its own state: module variables, class attributes, objects of modules.

It reads the source of all modules. A change is an assignment to a global variable or to an item or attribute of one, a
call of a method that changes containers or objects, and what `setattr`, `next` and `globals()` do. Names are followed
through imports to where they are defined. Local names that stand for such an object are followed within a function.
"""

import ast
import functools
from collections import defaultdict
from pathlib import Path

CHANGING_METHODS = frozenset(
    {
        "append", "add", "appendleft", "clear", "difference_update", "discard", "extend", "extendleft", "insert",
        "intersection_update", "move_to_end", "pop", "popitem", "popleft", "put", "remove", "reverse", "set",
        "setdefault", "setLevel", "sort", "update", "__setitem__",
    }
)  # fmt: skip
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_STORES = (ast.Store, ast.Del)
_WHEN_MADE = ("__init__", "__new__", "__init_subclass__", "__set_name__", "__post_init__", "__setstate__")


def _names(target):
    """The names that an assignment binds."""
    if isinstance(target, ast.Name):
        yield target.id
    elif isinstance(target, (ast.Tuple, ast.List)):
        for part in target.elts:
            yield from _names(part)
    elif isinstance(target, ast.Starred):
        yield from _names(target.value)


def _statements(body):
    """Those of a module or class itself, under conditions too."""
    for statement in body:
        yield statement
        if isinstance(statement, (*_FUNCTIONS, ast.ClassDef)):
            continue
        for part in ("body", "orelse", "finalbody"):
            yield from _statements(getattr(statement, part, []))
        for handler in getattr(statement, "handlers", []):
            yield from _statements(handler.body)


def _bound(body):
    """Names that the statements bind to values."""
    for statement in _statements(body):
        if isinstance(statement, ast.Assign):
            for target in statement.targets:
                yield from _names(target)
        elif isinstance(statement, ast.AugAssign) or (isinstance(statement, ast.AnnAssign) and statement.value):
            yield from _names(statement.target)


def _dotted(node):
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        outer = _dotted(node.value)
        return outer and f"{outer}.{node.attr}"
    return None


class Module:
    """A module's names: what it defines, and what it has from elsewhere."""

    def __init__(self, name, path, text):
        self.name, self.tree = name, ast.parse(text)
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        self.classes = {s.name: s for s in _statements(self.tree.body) if isinstance(s, ast.ClassDef)}
        self.own = {*_bound(self.tree.body), *self.classes}
        self.own |= {s.name for s in _statements(self.tree.body) if isinstance(s, ast.FunctionDef)}
        self.imported = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Global):
                self.own.update(node.names)
            elif isinstance(node, ast.Import):
                for part in node.names:
                    self.imported[part.asname or part.name.partition(".")[0]] = (
                        part.name if part.asname else part.name.partition(".")[0]
                    )
            elif isinstance(node, ast.ImportFrom):
                base = node.module or ""
                if node.level:
                    outer = package.split(".")[: len(package.split(".")) - node.level + 1]
                    base = ".".join([*outer, base] if base else outer)
                for part in node.names:
                    self.imported[part.asname or part.name] = f"{base}.{part.name}"


class Changes:
    """`found`: by `module:name`, the functions that change it."""

    def __init__(self, sources):
        """`sources`: (module, path, text) of each."""
        self.modules = {name: Module(name, path, text) for name, path, text in sources}
        self.found = defaultdict(set)
        for module in self.modules.values():
            self._of_body(module, module.tree, "", None)

    @classmethod
    def of_packages(cls, root, packages):
        """Those of all modules in some folders."""
        found = []
        for package in packages:
            for path in sorted((Path(root) / package).rglob("*.py")):
                parts = path.relative_to(root).with_suffix("").parts
                name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
                found.append((name, path, path.read_text()))
        return cls(found)

    def _of_body(self, module, node, where, owner):
        for part in ast.iter_child_nodes(node):
            if isinstance(part, _FUNCTIONS):
                self._of_function(module, part, f"{where}{getattr(part, 'name', 'lambda')}", owner)
            elif isinstance(part, ast.ClassDef):
                self._of_body(module, part, f"{where}{part.name}.", part)
            else:
                self._of_body(module, part, where, owner)

    def place(self, module, dotted, local=()):
        """`module:name` or `module:name.attribute` of what a name stands for; None for what is of nobody here."""
        first, _, rest = dotted.partition(".")
        if first in local:
            return None
        if first in module.own:
            full = f"{module.name}.{dotted}"
        elif first in module.imported:
            full = f"{module.imported[first]}.{rest}" if rest else module.imported[first]
        else:
            return None
        for _ in range(10):
            parts = full.split(".")
            known = next((k for k in range(len(parts), 0, -1) if ".".join(parts[:k]) in self.modules), None)
            if known is None or known == len(parts):
                return None  # somebody else's, or a module
            home, name, attributes = self.modules[".".join(parts[:known])], parts[known], parts[known + 1 :]
            if name in home.own or name not in home.imported:
                return f"{home.name}:{'.'.join([name, *attributes])}" if name in home.own else None
            full = ".".join([home.imported[name], *attributes])
        return None

    def _of_function(self, module, function, where, owner):
        globals_, local, aliases = set(), set(), {}
        nodes = list(ast.walk(function))
        for node in nodes:
            if isinstance(node, ast.Global):
                globals_.update(node.names)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, _STORES):
                local.add(node.id)
            elif isinstance(node, ast.arg):
                local.add(node.arg)
        local -= globals_
        for node in nodes:
            if isinstance(node, ast.Assign) and (dotted := _dotted(node.value)):
                target = self.place(module, dotted, local)
                if target:
                    aliases.update((name, target) for t in node.targets for name in _names(t))

        def changes(node, how):
            dotted = _dotted(node)
            if dotted is None:
                return
            first, _, rest = dotted.partition(".")
            if first in aliases:
                self._note(aliases[first] + (f".{rest}" if rest else ""), module, where, how)
            elif owner is not None and first in ("self", "cls") and rest:
                attribute = rest.partition(".")[0]
                # What a class has is changed for all its objects, unless each has its own.
                if (first == "cls" and isinstance(getattr(node, "ctx", None), _STORES)) or (
                    attribute in _containers_of(owner) and not isinstance(getattr(node, "ctx", None), _STORES)
                ):
                    self._note(f"{module.name}:{owner.name}.{attribute}", module, where, how)
            else:
                found = self.place(module, dotted, local)
                if found:
                    self._note(found, module, where, how)

        for node in nodes:
            if isinstance(node, ast.Name) and isinstance(node.ctx, _STORES) and node.id in globals_:
                self._note(f"{module.name}:{node.id}", module, where, "global")
            elif isinstance(node, ast.Subscript) and isinstance(node.ctx, _STORES):
                changes(node.value, "item")
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, _STORES):
                changes(node, "attribute")
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                if node.func.attr in CHANGING_METHODS:
                    changes(node.func.value, node.func.attr)
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                if node.func.id in ("setattr", "delattr", "next") and node.args:
                    changes(node.args[0], node.func.id)
                elif node.func.id == "globals" and getattr(function, "name", "") not in ("__getattr__", "__dir__"):
                    self._note(f"{module.name}:globals()", module, where, "globals")

    def _note(self, place, module, where, how):
        self.found[place].add(f"{module.name}.{where} ({how})")

    def root(self, place):
        """The variable, or the class's attribute, that a place is a part of."""
        module, _, path = place.partition(":")
        first, *rest = path.split(".")
        of_class = rest and first in self.modules[module].classes
        return f"{module}:{first}.{rest[0]}" if of_class else f"{module}:{first}"

    def changes_itself(self, module, name):
        """Whether objects of a class have methods that change them after they are made."""
        node = self.modules[module].classes.get(name) if module in self.modules else None
        for method in node.body if node else ():
            if isinstance(method, _FUNCTIONS) and method.name not in _WHEN_MADE:
                for part in ast.walk(method):
                    target = part.value if isinstance(part, ast.Subscript) else part
                    if isinstance(part, (ast.Attribute, ast.Subscript)) and isinstance(part.ctx, _STORES):
                        if (_dotted(target) or "").startswith("self."):
                            return True
                    elif isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute):
                        of = (_dotted(part.func) or "").split(".")
                        if of[0] == "self" and len(of) > 2 and of[-1] in CHANGING_METHODS:
                            return True
        return False


@functools.cache
def _containers_of(owner):
    """Attributes of a class that are containers, and that no method replaces by one of the object's own."""
    found = set()
    for statement in owner.body:
        value = getattr(statement, "value", None)
        if isinstance(value, ast.Call) and _dotted(value.func) in ("field", "dataclasses.field"):
            continue  # each object gets one
        if isinstance(statement, (ast.Assign, ast.AnnAssign)) and isinstance(
            value, (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp, ast.Call)
        ):
            found.update(_bound([statement]))
    for node in ast.walk(owner):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and _dotted(node) == f"self.{node.attr}":
            found.discard(node.attr)
    return found
