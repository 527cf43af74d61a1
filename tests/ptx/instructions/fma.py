"""Fused multiply-add as a NumPy ufunc: the loop is LLVM's, with the processor's own or the C library's.

NumPy has no such function; that of C from Python is scalar. The ufunc is made through NumPy's C interface, whose table
of functions is stable.
"""

from __future__ import annotations

import ctypes

import llvmlite.binding as llvm
import numpy as np

LOOP = """
define void @fma_{name}(ptr %args, ptr %dimensions, ptr %steps, ptr %data) {{
entry:
  %n = load i64, ptr %dimensions
  %pa = load ptr, ptr %args
  %qb = getelementptr ptr, ptr %args, i64 1
  %pb = load ptr, ptr %qb
  %qc = getelementptr ptr, ptr %args, i64 2
  %pc = load ptr, ptr %qc
  %qd = getelementptr ptr, ptr %args, i64 3
  %pd = load ptr, ptr %qd
  %sa = load i64, ptr %steps
  %tb = getelementptr i64, ptr %steps, i64 1
  %sb = load i64, ptr %tb
  %tc = getelementptr i64, ptr %steps, i64 2
  %sc = load i64, ptr %tc
  %td = getelementptr i64, ptr %steps, i64 3
  %sd = load i64, ptr %td
  %any = icmp sgt i64 %n, 0
  br i1 %any, label %loop, label %end
loop:
  %k = phi i64 [0, %entry], [%k1, %loop]
  %oa = mul i64 %k, %sa
  %ob = mul i64 %k, %sb
  %oc = mul i64 %k, %sc
  %od = mul i64 %k, %sd
  %ea = getelementptr i8, ptr %pa, i64 %oa
  %eb = getelementptr i8, ptr %pb, i64 %ob
  %ec = getelementptr i8, ptr %pc, i64 %oc
  %ed = getelementptr i8, ptr %pd, i64 %od
  %a = load {type}, ptr %ea
  %b = load {type}, ptr %eb
  %c = load {type}, ptr %ec
  %d = call {type} @llvm.fma.{name}({type} %a, {type} %b, {type} %c)
  store {type} %d, ptr %ed
  %k1 = add i64 %k, 1
  %more = icmp slt i64 %k1, %n
  br i1 %more, label %loop, label %end
end:
  ret void
}}
declare {type} @llvm.fma.{name}({type}, {type}, {type})
"""
FROM_FUNCTION = 1
"""The place of PyUFunc_FromFuncAndData in the table."""
_kept: list[object] = []


def _make() -> tuple[np.ufunc, np.ufunc]:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    text = LOOP.format(name="f32", type="float") + LOOP.format(name="f64", type="double")
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), jit=True
    )
    module = llvm.parse_assembly(text)
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    try:
        import numpy._core._multiarray_umath as umath
    except ImportError:  # NumPy 1
        import numpy.core._multiarray_umath as umath
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    table = ctypes.cast(pointer(umath._UFUNC_API, None), ctypes.POINTER(ctypes.c_void_p))
    make = ctypes.PYFUNCTYPE(
        ctypes.py_object,
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.c_char_p,
        *[ctypes.c_int] * 4,
        *[ctypes.c_char_p] * 2,
        ctypes.c_int,
    )(table[FROM_FUNCTION])
    ufuncs = []
    for name, dtype in (("f32", np.float32), ("f64", np.float64)):
        loops = (ctypes.c_void_p * 1)(engine.get_function_address(f"fma_{name}"))
        data = (ctypes.c_void_p * 1)()
        types = ctypes.create_string_buffer(bytes([np.dtype(dtype).num] * 4), 4)
        label = ctypes.create_string_buffer(f"fma_{name}".encode())
        # The ufunc keeps these addresses.
        _kept.append((engine, loops, data, types, label))
        ufuncs.append(
            make(ctypes.addressof(loops), ctypes.addressof(data), ctypes.cast(types, ctypes.c_char_p), 1, 3, 1, -1,
                 ctypes.cast(label, ctypes.c_char_p), b"", 0)
        )  # fmt: skip
    return tuple(ufuncs)


fma_f32, fma_f64 = _make()
