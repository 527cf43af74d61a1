"""The most fused multiply-adds that this machine can do: a loop in registers, without memory."""

import ctypes
import threading

from llvmlite import binding as llvm

# Independent sums: more than two units of latency four need, fewer than there are registers.
SUMS = 12


class FmaPeak:
    """Runs float32 FMAs on ``threads`` threads."""

    def __init__(self, threads: int) -> None:
        features = llvm.get_host_cpu_features()
        self._width = 16 if features.get("avx512f") else 8
        self._threads = threads
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        target = llvm.Target.from_default_triple()
        machine = target.create_target_machine(cpu=llvm.get_host_cpu_name(), features=features.flatten(), opt=2)
        module = llvm.parse_assembly(_ir(self._width))
        module.verify()
        self._engine = llvm.create_mcjit_compiler(module, machine)
        self._engine.finalize_object()
        address = self._engine.get_function_address("fma_peak")
        self._kernel = ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_int64, ctypes.c_float, ctypes.c_float)(address)

    def __call__(self, flops: float) -> None:
        """Do about ``flops`` floating-point operations, spread over the threads; an FMA counts as two."""
        iterations = int(flops / (2 * SUMS * self._width * self._threads))
        # ctypes releases the interpreter's lock.
        others = [threading.Thread(target=self._kernel, args=(iterations, 0.5, 1.0)) for _ in range(self._threads - 1)]
        for thread in others:
            thread.start()
        self._kernel(iterations, 0.5, 1.0)
        for thread in others:
            thread.join()


def _ir(width: int) -> str:
    vector = f"<{width} x float>"
    fma = f"@llvm.fma.v{width}f32"
    attributes = f'"prefer-vector-width"="{width * 32}"'
    splat = [
        f"%{name}.0 = insertelement {vector} poison, float %{name}, i32 0\n"
        f"  %{name}.v = shufflevector {vector} %{name}.0, {vector} poison, <{width} x i32> zeroinitializer"
        for name in "ab"
    ]
    # Sums that start alike would be one sum to the compiler.
    phis = [f"%s{i} = phi {vector} [ splat (float {i}.0), %entry ], [ %t{i}, %loop ]" for i in range(SUMS)]
    fmas = [f"%t{i} = call {vector} {fma}({vector} %s{i}, {vector} %a.v, {vector} %b.v)" for i in range(SUMS)]
    # Every sum is part of the result, so that none is dropped.
    folds = [f"%r0 = fadd {vector} %t0, %t1"]
    folds += [f"%r{i - 1} = fadd {vector} %r{i - 2}, %t{i}" for i in range(2, SUMS)]
    reduce = f"@llvm.vector.reduce.fmax.v{width}f32"
    lines = "\n  ".join
    return f"""
declare {vector} {fma}({vector}, {vector}, {vector})
declare float {reduce}({vector})
define float @fma_peak(i64 %n, float %a, float %b) #0 {{
entry:
  {lines(splat)}
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  {lines(phis)}
  {lines(fmas)}
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %exit
exit:
  {lines(folds)}
  %result = call float {reduce}({vector} %r{SUMS - 2})
  ret float %result
}}
attributes #0 = {{ {attributes} }}
"""
