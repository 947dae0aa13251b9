"""Threads that share the work of one kernel, from inside it.

Handing a part of a product to another thread through the interpreter takes 50 microseconds, longer than most
products. So helpers stay in compiled code for some time after a job and poll for the next one, as those of
OpenMP do; a kernel that finds none awake does all parts alone, and Python wakes them later (`call_helpers`).
The threads and the words by which they communicate are in `parallel`.

A job is a named tuple of arrays and numbers, and `do_parts(job, low, high)` does some of its parts. They
write to disjoint memory, so the result does not depend on which thread does which. Parts are grouped in
chunks. Each thread begins with the same chunks every time, which may still be in its cache, then takes
those that others have not begun; a helper that the system has suspended is not waited for unless it has
begun one.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from llvmlite import binding, ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from seqloom.kernels.parallel import (
    ASLEEP,
    BUSY,
    CODE,
    FAILED,
    HELPED,
    JOB,
    LINES,
    LOCK,
    NEXT,
    OFFERED,
    OWN,
    PARTS,
    POOLS,
    READY,
    SIZE,
    STATE,
    THREADS,
    WANTED,
    WORDS,
    WORTH,
)

CHUNKS = 4  # of each thread


def without_team(matrix: tuple[Any, ...]) -> tuple[Any, ...]:
    """Reduce a named tuple that ends in a team, for pickling: the copy has the team of its process."""
    return type(matrix), matrix[:-1]


def do_parts(job: Any, low: int, high: int) -> None:
    """Do the parts of a job from `low` to `high`, in kernels; each kind of job has an `overload`."""


# ---- words that several threads change


def _word(context, builder, signature, arguments):
    words = context.make_array(signature.args[0])(context, builder, arguments[0])
    return builder.gep(words.data, [arguments[1]])


@intrinsic
def _load(context, words, index):
    """Load a word (acquire): everything written before it was stored is then visible."""

    def code(context, builder, signature, arguments):
        return builder.load_atomic(_word(context, builder, signature, arguments), "acquire", 8)

    return types.int64(words, types.intp), code


@intrinsic
def _store(context, words, index, value):
    def code(context, builder, signature, arguments):
        builder.store_atomic(
            arguments[2], _word(context, builder, signature, arguments), "release", 8
        )
        return context.get_dummy_value()

    return types.void(words, types.intp, types.int64), code


@intrinsic
def _add_one(context, words, index):
    """Add one to a word and return its old value."""

    def code(context, builder, signature, arguments):
        index = _word(context, builder, signature, arguments)
        return builder.atomic_rmw("add", index, ir.IntType(64)(1), "acq_rel")

    return types.int64(words, types.intp), code


@intrinsic
def _change(context, words, index, old, new):
    """Set a word from `old` to `new` and return whether it was `old`."""

    def code(context, builder, signature, arguments):
        index = _word(context, builder, signature, arguments)
        return builder.extract_value(
            builder.cmpxchg(index, *arguments[2:], "acq_rel", "acquire"), 1
        )

    return types.boolean(words, types.intp, types.int64, types.int64), code


@intrinsic
def _pause(context):
    """Yield the core to its other hardware thread for a moment, where there is an instruction for it."""

    def code(context, builder, signature, arguments):
        if binding.get_default_triple().startswith("x86_64"):
            kind = ir.FunctionType(ir.VoidType(), [])
            builder.call(
                cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.sse2.pause"), []
            )
        return context.get_dummy_value()

    return types.void(), code


def _unowned(context, builder, kind, value):
    """Return a value with arrays that have no owner: threads that count references would wait for each
    other.
    """
    assert not isinstance(kind, types.Integer) or kind.bitwidth == 64, (
        "helpers know no other numbers"
    )
    if isinstance(kind, types.Array):
        assert kind.layout == "C", "helpers know no other order"
        array = context.make_array(kind)(context, builder, value)
        array.meminfo = cgutils.get_null_value(array.meminfo.type)
        return array._getvalue()
    for i, part in enumerate(kind if isinstance(kind, types.BaseTuple) else ()):
        unowned = _unowned(context, builder, part, builder.extract_value(value, i))
        value = builder.insert_value(value, unowned, i)
    return value


def _job_pointer(context, builder, signature, words, kind):
    """Return a pointer to a job of this kind in the compiler's layout: numbers, and pointers to arrays."""
    job = context.get_value_type(kind)
    assert context.get_abi_sizeof(job) <= 8 * LINES * WORDS, "a job must fit its lines"
    words = context.make_array(signature.args[0])(context, builder, words)
    return builder.bitcast(builder.gep(words.data, [ir.IntType(64)(JOB)]), job.as_pointer())


@intrinsic
def _put_job(context, words, job):
    def code(context, builder, signature, arguments):
        value = _unowned(context, builder, job, arguments[1])
        builder.store(value, _job_pointer(context, builder, signature, arguments[0], job), align=8)
        return context.get_dummy_value()

    return types.void(words, job), code


def _digest(job):
    """Return a name of a kind of job, for the symbol of its code.

    A symbol is made of a function's name, the types of its arguments, which here do not tell one kind of job
    from another, and a number that the process counts up. Kernels that other processes have compiled, and this
    one loads, may have the same number: two kinds of jobs with one symbol would run each other's code.
    """
    return sha256(f"{job.instance_class.__module__}.{job}".encode()).hexdigest()[:16]


@intrinsic
def _code_of(context, words, job):
    """Return the address of the code that a thread runs to take part in a job of this kind."""

    @intrinsic
    def get_job(context, words):
        def code(context, builder, signature, arguments):
            return builder.load(
                _job_pointer(context, builder, signature, arguments[0], job), align=8
            )

        return job(words), code

    def take_part(team, me):
        take_chunks(team, me, get_job(team))

    take_part.__qualname__ = f"take_part_in_{_digest(job)}"

    def code(context, builder, signature, arguments):
        compiled = context.compile_subroutine(builder, take_part, types.none(words, types.int64))
        return builder.ptrtoint(
            context.declare_function(builder.module, compiled.fndesc), ir.IntType(64)
        )

    return types.int64(words, job), code


@intrinsic
def _run_code(context, address, words, me):
    """Call the code at an address, as numba calls a function of a team and a number."""

    def code(context, builder, signature, arguments):
        kinds = signature.args[1:]
        function = context.call_conv.get_function_type(types.none, kinds)
        # result, error
        unused = [cgutils.alloca_once(builder, kind.pointee) for kind in function.args[:2]]
        packed = context.get_arg_packer(kinds).as_arguments(builder, arguments[1:])
        builder.call(builder.inttoptr(arguments[0], function.as_pointer()), [*unused, *packed])
        return context.get_dummy_value()

    return types.void(types.int64, words, types.int64), code


# ---- sharing


# cached as part of its callers: an index by kinds of jobs could not be loaded without their modules
@njit(nogil=True, cache=False)
def take_chunks(team, me, job):
    """Run this thread's chunks that nobody has begun, then those of the others.

    An error, which can only be lack of memory, is raised by the thread that has the job, when all have ended.
    """
    size, parts = team[SIZE], team[PARTS]
    chunks = size * CHUNKS
    for k in range(size):
        owner = (me + k) % size
        chunk = _add_one(team, OWN + owner * WORDS + NEXT)
        while chunk < (owner + 1) * CHUNKS:
            low, high = chunk * parts // chunks, (chunk + 1) * parts // chunks
            if low < high:
                try:
                    do_parts(job, low, high)
                except Exception:
                    _store(team, FAILED, 1)
            chunk = _add_one(team, OWN + owner * WORDS + NEXT)


@njit(nogil=True, cache=True)
def product_work(weights, rows):
    """Return the work of a product: reading the weights takes as long as multiplying about three rows."""
    return weights * max(rows // 3, min(rows, 1))


@njit(nogil=True, cache=False)
def share(team, job, parts, work):
    """Do all parts of a job, with helpers if the work, in multiplications and additions, is worth it and some
    are awake.
    """
    size = min(team[THREADS], work // team[WORTH], parts)
    if size < 2 or team[POOLS] > 0 or not _change(team, LOCK, 0, 1):
        if work >= 2 * team[WORTH] and parts > 1 and team[THREADS] == 0:
            team[WANTED] = 1  # nobody has been asked yet
        do_parts(job, 0, parts)
        return
    team[CODE], team[SIZE], team[PARTS], team[FAILED] = _code_of(team, job), size, parts, 0
    _put_job(team, job)
    for t in range(size):
        team[OWN + t * WORDS + NEXT] = t * CHUNKS
    for t in range(1, size):
        if not _change(team, OWN + t * WORDS + STATE, READY, OFFERED):
            team[WANTED] = 1
    _run_code(team[CODE], team, 0)
    for t in range(1, size):
        if not _change(team, OWN + t * WORDS + STATE, OFFERED, READY):  # else it has not begun
            while _load(team, OWN + t * WORDS + STATE) == BUSY:
                _pause()
    failed = team[FAILED]
    _store(team, LOCK, 0)
    if failed:
        raise MemoryError("not enough memory for a part of the work")


@njit(nogil=True, cache=True)
def next_job(team, me, patience):
    """Wait for a job; return whether there is one."""
    state, looks = OWN + me * WORDS + STATE, 0
    while looks < patience or not _change(team, state, READY, ASLEEP):
        if _load(team, state) == OFFERED and _change(team, state, OFFERED, BUSY):
            _add_one(team, HELPED)
            return True
        _pause()
        looks += 1
    return False


@njit(nogil=True, cache=True)
def serve(team, me, patience):
    """Run jobs as this member of a team until `patience` polls in a row have found none.

    Return at once if this member is awake already: there must not be two of a number.
    """
    state = OWN + me * WORDS + STATE
    awake = _change(team, state, ASLEEP, READY)
    while awake and next_job(team, me, patience):
        _run_code(team[CODE], team, me)
        _store(team, state, READY)
