"""mt.function: classes that change between two calls, and the methods that Python finds by itself."""

import abc
import functools
import types

import pytest
from function_rows import Rows

row = Rows()


class T:
    def __init__(self):
        self.value = 1.0


@row
def a_class_registered_as_abstract():

    class A(metaclass=abc.ABCMeta):  # noqa: B024
        pass

    class B:
        pass

    b = B()
    return lambda x: x + 1 if isinstance(b, A) else x - 1, lambda: A.register(B)


@row
def a_class_registered_asked_by_issubclass():

    class A(metaclass=abc.ABCMeta):  # noqa: B024
        pass

    class B:
        pass

    return lambda x: x + 1 if issubclass(B, A) else x - 1, lambda: A.register(B)


@row
def a_class_assigned_to_a_module():
    module = types.ModuleType("a")
    module.value = 1.0

    class WithProperty(types.ModuleType):
        @property
        def value(self):
            return 7.0

    return lambda x: x * module.value, lambda: setattr(module, "__class__", WithProperty)


@row
def a_generator_that_was_there_before_is_closed():
    def values():
        yield 1.0

    generator = values()
    return lambda x: x + 1 if generator.gi_frame is not None else x - 1, generator.close


@row
def keywords_of_a_partial_function():
    made = functools.partial(dict, k=1.0)
    return lambda x: x * made.keywords["k"], lambda: made.__setstate__((dict, (), {"k": 7.0}, None))


@row
def isinstance_bases():

    class One:
        pass

    class Two:
        pass

    class Own(One):
        pass

    t = Own()
    return lambda x: x + 1 if isinstance(t, One) else x - 1, lambda: setattr(Own, "__bases__", (Two,))


@row
def issubclass_bases():

    class One:
        pass

    class Two:
        pass

    class Own(One):
        pass

    return lambda x: x + 1 if issubclass(Own, One) else x - 1, lambda: setattr(Own, "__bases__", (Two,))


@row
def instancecheck_added():

    class M(type):
        pass

    class A(metaclass=M):
        pass

    return lambda x: x + 1 if isinstance(3, A) else x - 1, lambda: setattr(M, "__instancecheck__", lambda c, o: True)


@row
def except_bases():

    class OneError(Exception):
        pass

    class TwoError(Exception):
        pass

    class Own(OneError):  # noqa: N818
        pass

    def f(x):
        try:
            raise Own
        except OneError:
            return x + 1
        except TwoError:
            return x - 1

    return f, lambda: setattr(Own, "__bases__", (TwoError,))


@row
def class_name():

    class A:
        pass

    return lambda x: x * len(A.__name__), lambda: setattr(A, "__name__", "Long")


@row
def class_name_of():

    class A:
        pass

    t = A()
    return lambda x: x * len(type(t).__name__), lambda: setattr(A, "__name__", "Long")


@row
def class_qualname():

    class A:
        pass

    return lambda x: x * len(A.__qualname__), lambda: setattr(A, "__qualname__", "Long")


@row
def class_bases_read():

    class A:
        pass

    class B:
        pass

    class C(A):
        pass

    return lambda x: x + 1 if C.__bases__ == (A,) else x - 1, lambda: setattr(C, "__bases__", (B,))


@row
def class_mro_read():

    class A:
        pass

    class B(A):
        pass

    class C(A):
        pass

    return lambda x: x * len(C.__mro__), lambda: setattr(C, "__bases__", (B,))


@row
def the_name_of_a_function():

    def h(x):
        return x

    return lambda x: h(x) * len(h.__name__), lambda: setattr(h, "__name__", "Long")


@row
def the_docstring_of_a_function():

    def h(x):
        """a"""
        return x

    return lambda x: h(x) * len(h.__doc__ or ""), lambda: setattr(h, "__doc__", "Long")


@row
def bool_added():
    t = T()

    class A:
        pass

    t = A()
    return lambda x: x + 1 if t else x - 1, lambda: setattr(A, "__bool__", lambda self: False)


@row
def len_added():

    class A:
        pass

    t = A()
    return lambda x: x + 1 if t else x - 1, lambda: setattr(A, "__len__", lambda self: 0)


@row
def bool_not_added():

    class A:
        pass

    t = A()
    return lambda x: x + 1 if not t else x - 1, lambda: setattr(A, "__bool__", lambda self: False)


@row
def bool_call_added():

    class A:
        pass

    t = A()
    return lambda x: x + 1 if bool(t) else x - 1, lambda: setattr(A, "__bool__", lambda self: False)


@row
def eq_added():

    class A:
        pass

    t, u = (A(), A())
    return lambda x: x + 1 if t == u else x - 1, lambda: setattr(A, "__eq__", lambda self, o: True)


@row
def eq_in_list_added():

    class A:
        pass

    t, u = (A(), A())
    return lambda x: x + 1 if t in [u] else x - 1, lambda: setattr(A, "__eq__", lambda self, o: True)


@row
def getattr_added():

    class A:
        pass

    t = A()
    return lambda x: x * getattr(t, "z", 1.0), lambda: setattr(A, "__getattr__", lambda self, n: 7.0)


@row
def getattribute_added():

    class A:
        z = 1.0

    t = A()
    return lambda x: x * t.z, lambda: setattr(A, "__getattribute__", lambda self, n: 7.0)


@row
def desc_get_added():

    class D:
        pass

    d = D()

    class A:
        z = d

    t = A()
    return lambda x: x * 5 if t.z is d else x * t.z, lambda: setattr(D, "__get__", lambda self, i, o: 7.0)


@row
def op_alias():

    class A:
        def plus(self, o):
            return o + 1

        __add__ = plus

    t = A()
    return lambda x: t + x, lambda: setattr(A, "__add__", lambda self, o: o - 9)


@row
def op_radd_added():

    class A:
        def __add__(self, o):
            return 1.0

    class B(A):
        pass

    t, u = (A(), B())
    return lambda x: x * (t + u), lambda: setattr(B, "__radd__", lambda self, o: 9.0)


@row
def enter_alias():

    class A:
        def a(self):
            return 2.0

        def b(self, *e):
            pass

        __enter__ = a
        __exit__ = b

    t = A()

    def f(x):
        with t as v:
            return x * v

    return f, lambda: setattr(A, "__enter__", lambda self: 5.0)


@row
def iter_alias():

    class A:
        def a(self):
            return iter([1.0, 2.0])

        __iter__ = a

    t = A()

    def f(x):
        for v in t:
            x = x * v
        return x

    return f, lambda: setattr(A, "__iter__", lambda self: iter([5.0]))


@row
def getitem_alias():

    class A:
        a = lambda self, k: 2.0  # noqa: E731
        __getitem__ = a

    t = A()
    return lambda x: x * t[0], lambda: setattr(A, "__getitem__", lambda self, k: 5.0)


@row
def super_bases():

    class A:
        def g(self):
            return 1.0

    class B:
        def g(self):
            return 5.0

    class C(A):
        def g(self):
            return super().g()

    t = C()
    return lambda x: x * t.g(), lambda: setattr(C, "__bases__", (B,))


@row
def super_mixin():

    class A:
        def g(self):
            return 1.0

    class M(A):
        def g(self):
            return 5.0

    class C(A):
        def g(self):
            return super().g()

    t = C()
    return lambda x: x * t.g(), lambda: setattr(C, "__bases__", (M,))


@row
def metaclass_data_desc_added():

    class M(type):
        pass

    class A(metaclass=M):
        v = 1.0

    return lambda x: x * A.v, lambda: setattr(M, "v", property(lambda c: 9.0))


@row
def metaclass_call_added():

    class M(type):
        pass

    class A(metaclass=M):
        def __init__(self):
            self.v = 1.0

    return lambda x: x * getattr(A(), "v", 9.0), lambda: setattr(M, "__call__", lambda c, *a: 5.0)


@row
def new_added():

    class A:
        v = 1.0

    class B:
        v = 7.0

    def change():
        A.__new__ = lambda c: object.__new__(B)

    return lambda x: x * A().v, change


@row
def setattr_added():

    class A:
        def __init__(self):
            self.v = 1.0

    def change():
        A.__setattr__ = lambda self, n, v: object.__setattr__(self, n, v * 3)

    return lambda x: x * A().v, change


@row
def list_iter_added():

    class L(list):
        pass

    items = L([1.0])

    def f(x):
        for v in items:
            x = x * v
        return x

    return f, lambda: setattr(L, "__iter__", lambda self: iter([7.0]))


@row
def list_getitem_added():

    class L(list):
        pass

    items = L([1.0])
    return lambda x: x * items[0], lambda: setattr(L, "__getitem__", lambda self, k: 7.0)


@row
def dict_getitem_added():

    class L(dict):
        pass

    items = L(a=1.0)
    return lambda x: x * items["a"], lambda: setattr(L, "__getitem__", lambda self, k: 7.0)


@row
def module_class_attr():

    class MM(types.ModuleType):
        v = 1.0

    m = MM("m")
    return lambda x: x * m.v, lambda: setattr(MM, "v", 5.0)


@pytest.mark.parametrize("jit_compile", [True, None])
@pytest.mark.parametrize("name", row.names)
def test_what_changes_between_calls_is_noticed(name, jit_compile):
    row.check(name, jit_compile)
