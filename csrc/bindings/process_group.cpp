// Groups of processes: how minitensor.distributed begins calls and waits for them.
#include <algorithm>
#include <list>
#include <string>

#include "bindings/tensor/shared_memory.h"
#include "core/process/fork.h"
#include "dispatch/gpu.h"
#include "dispatch/jit_device.h"
#include "dispatch/memory/version.h"
#include "distributed/group.h"
#include "distributed/mpi_channel.h"
#include "distributed/shared_channel.h"
#include "distributed/socket_channel.h"
#include "trace/plan/plan.h"

namespace mt::py {

namespace {

using namespace mt::distributed;

using Memory = std::vector<Ref<Storage>>;

struct Communicator {
    std::shared_ptr<Group> group;
    uint64_t made_in = forks();
    // Of calls that nobody holds any more, but that still go on.
    std::list<std::pair<std::shared_ptr<Pending>, Memory>> left_alone;

    Group& open() {
        if (made_in != forks())
            fail("a process group that was made before a fork can't be used in the child: call init_process_group "
                 "there");
        left_alone.remove_if([](auto& one) { return one.first->done.load(); });
        return *group;
    }
};

struct CommunicatorObject {
    PyObject_HEAD Communicator* state;
};

struct Call {
    std::shared_ptr<Pending> pending;
    Lane* lane = nullptr;
    Memory memory;
};

struct CallObject {
    PyObject_HEAD CommunicatorObject* communicator;
    Call* call;
};

Communicator& communicator(PyObject* self) { return *reinterpret_cast<CommunicatorObject*>(self)->state; }
CallObject& call_object(PyObject* self) { return *reinterpret_cast<CallObject*>(self); }

// Calls.

void call_dealloc(PyObject* self) {
    CallObject& object = call_object(self);
    if (Call* call = object.call) {
        Communicator& of = *object.communicator->state;
        if (of.made_in != forks()) {
            new Call(std::move(*call));  // the parent's; nothing in it can be relied on
        } else if (!call->pending->done) {
            of.left_alone.emplace_back(std::move(call->pending), std::move(call->memory));
        }
        delete call;
    }
    Py_XDECREF(reinterpret_cast<PyObject*>(object.communicator));
    Py_TYPE(self)->tp_free(self);
}

PyObject* call_wait(PyObject* self, PyObject* limit) {
    Call& call = *call_object(self).call;
    int64_t nanoseconds = INT64_MAX;
    if (limit != Py_None) {
        const double seconds = to_double(limit);
        if (seconds < 9e9) nanoseconds = static_cast<int64_t>(seconds * 1e9);
    }
    bool done;
    {
        ReleaseGil gil;
        done = call.lane->wait(call.pending, nanoseconds);
    }
    if (done) call.memory.clear();
    return PyBool_FromLong(done);
}

PyObject* call_done(PyObject* self, void*) { return PyBool_FromLong(call_object(self).call->pending->done.load()); }

PyObject* call_error(PyObject* self, void*) {
    Pending& pending = *call_object(self).call->pending;
    if (!pending.done.load(std::memory_order_acquire) || pending.error.empty()) Py_RETURN_NONE;
    return PyUnicode_DecodeUTF8(pending.error.data(), static_cast<Py_ssize_t>(pending.error.size()), "replace");
}

PyObject* call_source(PyObject* self, void*) { return PyLong_FromLong(call_object(self).call->pending->source); }

PyMethodDef call_methods[] = {{"wait", method<call_wait>(), METH_O,
                               "wait(seconds or None) -> whether it is done; signals are handled meanwhile."},
                              {}};
PyGetSetDef call_attributes[] = {
    {"done", slot<call_done>, nullptr, "Whether it is.", nullptr},
    {"error", slot<call_error>, nullptr, "What went wrong, or None.", nullptr},
    {"source", slot<call_source>, nullptr, "The rank that a message came from, or -1.", nullptr},
    {}};

PyTypeObject make_call_type() {
    PyTypeObject type = blank_type();
    type.tp_name = "minitensor._C._CommunicatorCall";
    type.tp_doc = "A call of a group of processes that has begun.";
    type.tp_basicsize = sizeof(CallObject);
    type.tp_flags = Py_TPFLAGS_DEFAULT;
    type.tp_dealloc = slot<call_dealloc>;
    type.tp_methods = call_methods;
    type.tp_getset = call_attributes;
    return type;
}
PyTypeObject CallType = make_call_type();

// The memory of tensors.

Tensor& given(PyObject* object) {
    if (!is_tensor(object)) fail_type("expected a tensor");
    trace::check_open("a call of a process group");
    Tensor& tensor = *tensor_of(object);
    if (!on_host(tensor) || on_jit_device(tensor) || is_sparse(tensor) || tensor.device().type == DeviceType::Meta)
        fail("a process group reads and writes tensors on the CPU");
    if (!tensor.contiguous()) fail("a process group reads and writes contiguous tensors");
    return tensor;
}

Span readable(PyObject* object, Memory& memory) {
    Tensor& tensor = given(object);
    auto* data = static_cast<char*>(tensor.data());
    memory.push_back(tensor.storage);
    return {data, static_cast<size_t>(tensor.numel) * itemsize(tensor.dtype)};
}

Span writable(PyObject* object, Memory& memory) {
    Tensor& tensor = given(object);
    if (tensor.storage->read_only) fail("a process group can't write to read-only memory");
    auto* data = static_cast<char*>(reachable_place(tensor).data);
    ++version_of(tensor);
    memory.push_back(tensor.storage);
    return {data, static_cast<size_t>(tensor.numel) * itemsize(tensor.dtype)};
}

std::vector<std::vector<Span>> lists(PyObject* ranks, int size, Memory& memory, Span (*take)(PyObject*, Memory&)) {
    std::vector<std::vector<Span>> found(size);
    if (ranks == Py_None) return found;
    PyRef outer = checked(PySequence_Fast(ranks, "expected a list of lists of tensors"));
    if (PySequence_Fast_GET_SIZE(outer.get()) != size) fail_value("expected a list for each rank");
    for (int rank = 0; rank < size; ++rank) {
        PyObject* one = PySequence_Fast_GET_ITEM(outer.get(), rank);
        if (one == Py_None) continue;
        PyRef inner = checked(PySequence_Fast(one, "expected a list of tensors"));
        for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(inner.get()); ++i)
            found[rank].push_back(take(PySequence_Fast_GET_ITEM(inner.get(), i), memory));
    }
    return found;
}

// The dtype and the number of elements.
std::string described(const Tensor& tensor) {
    return std::string(info(tensor.dtype).name) + '[' + std::to_string(tensor.numel) + ']';
}

int64_t limit_of(double seconds) { return seconds < 9e9 ? static_cast<int64_t>(seconds * 1e9) : INT64_MAX; }

// The object of a call that `begin` begins; waits for it if `waits`.
template <class Begin>
PyObject* driven(PyObject* self, Lane& lane, std::shared_ptr<Pending> pending, Memory memory, Begin begin, bool waits) {
    PyRef made = checked(CallType.tp_alloc(&CallType, 0));
    CallObject& object = call_object(made.get());
    object.communicator = reinterpret_cast<CommunicatorObject*>(Py_NewRef(self));
    object.call = new Call{pending, &lane, std::move(memory)};
    Group& group = *communicator(self).group;
    try {
        ReleaseGil gil;
        begin();
        if (waits) lane.wait(pending);
    } catch (...) {
        // Its memory is the caller's again.
        PyObject *type, *value, *traceback;
        PyErr_Fetch(&type, &value, &traceback);
        {
            ReleaseGil gil;
            group.abort("the process was interrupted in a call");
        }
        PyErr_Restore(type, value, traceback);
        throw;
    }
    if (waits) object.call->memory.clear();
    return made.release();
}

// Begins it; waits for it if it isn't left `alone`.
PyObject* begun(PyObject* self, Lane& lane, std::shared_ptr<Pending> pending, double timeout, bool alone,
                Memory memory) {
    pending->limit = limit_of(timeout);
    return driven(self, lane, pending, std::move(memory), [&] { lane.post(pending, alone); }, !alone);
}

const char* text_of(PyObject* object) {
    const char* text = PyUnicode_AsUTF8(object);
    if (!text) fail_python();
    return text;
}

// Communicators.

PyTypeObject CommunicatorType = blank_type();

PyObject* made(std::shared_ptr<Group> group) {
    PyRef object = checked(CommunicatorType.tp_alloc(&CommunicatorType, 0));
    reinterpret_cast<CommunicatorObject*>(object.get())->state = new Communicator{std::move(group)};
    return object.release();
}

void communicator_dealloc(PyObject* self) {
    Communicator* state = reinterpret_cast<CommunicatorObject*>(self)->state;
    // In a forked child nothing of the parent's is touched: its threads and locks are not there.
    if (state && state->made_in == forks()) {
        {
            ReleaseGil gil;
            state->group->leave();
        }
        delete state;
    }
    Py_TYPE(self)->tp_free(self);
}

PyObject* shared_memory(PyObject*, PyObject* size) {
    return PyLong_FromLong(SharedMemory::make(static_cast<int>(to_int64(size))));
}

PyObject* from_shared_memory(PyObject*, PyObject* args) {
    int descriptor, rank, size;
    if (!PyArg_ParseTuple(args, "iii:from_shared_memory", &descriptor, &rank, &size)) return nullptr;
    auto memory = std::make_shared<SharedMemory>(descriptor, rank, size);
    return made(std::make_shared<Group>(rank, size, shared_channel(memory, 0), shared_channel(memory, 1)));
}

std::vector<int> descriptors(PyObject* list, int size) {
    PyRef fast = checked(PySequence_Fast(list, "expected a list of descriptors"));
    if (PySequence_Fast_GET_SIZE(fast.get()) != size) fail_value("expected a descriptor for each rank");
    std::vector<int> found;
    for (int i = 0; i < size; ++i) found.push_back(static_cast<int>(to_int64(PySequence_Fast_GET_ITEM(fast.get(), i))));
    return found;
}

PyObject* from_sockets(PyObject*, PyObject* args) {
    int rank, size;
    PyObject *first, *second;
    if (!PyArg_ParseTuple(args, "iiOO:from_sockets", &rank, &size, &first, &second)) return nullptr;
    return made(std::make_shared<Group>(rank, size, socket_channel(descriptors(first, size)),
                                        socket_channel(descriptors(second, size))));
}

PyObject* start_mpi(PyObject*, PyObject* path) {
    const std::string name = text_of(path);
    MpiLibrary* library;
    {
        ReleaseGil gil;
        library = &MpiLibrary::load(name);
    }
    return Py_BuildValue("(ii)", library->rank, library->size);
}

PyObject* end_mpi(PyObject*, PyObject* seconds) {
    MpiLibrary* library = MpiLibrary::loaded();
    const int64_t limit = limit_of(to_double(seconds));
    if (library) {
        ReleaseGil gil;
        library->end(limit);
    }
    Py_RETURN_NONE;
}

PyObject* from_mpi(PyObject*, PyObject* args) {
    PyObject* list;
    int tag;
    if (!PyArg_ParseTuple(args, "Oi:from_mpi", &list, &tag)) return nullptr;
    MpiLibrary* library = MpiLibrary::loaded();
    if (!library) fail("MPI was not started");
    PyRef fast = checked(PySequence_Fast(list, "expected a list of ranks"));
    std::vector<int> ranks;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(fast.get()); ++i)
        ranks.push_back(static_cast<int>(to_int64(PySequence_Fast_GET_ITEM(fast.get(), i))));
    const auto own = std::find(ranks.begin(), ranks.end(), library->rank);
    if (own == ranks.end()) fail_value("this process's rank is not among them");
    std::shared_ptr<MpiGroup> group;
    {
        ReleaseGil gil;
        group = std::make_shared<MpiGroup>(*library, ranks, tag);
    }
    return made(std::make_shared<Group>(static_cast<int>(own - ranks.begin()), static_cast<int>(ranks.size()),
                                        mpi_channel(group, 0), mpi_channel(group, 1)));
}

PyObject* py_exchange(PyObject* self, PyObject* args) {
    PyObject *text, *sends, *recvs;
    double timeout;
    int alone;
    if (!PyArg_ParseTuple(args, "OOOdp:exchange", &text, &sends, &recvs, &timeout, &alone)) return nullptr;
    Group& group = communicator(self).open();
    Memory memory;
    auto out = lists(sends, group.size, memory, readable), in = lists(recvs, group.size, memory, writable);
    return begun(self, group.collectives,
                 exchange(group.rank, group.size, text_of(text), std::move(out), std::move(in)), timeout, alone,
                 std::move(memory));
}

ReduceKind kind_of(int number) {
    if (number < 0 || number >= static_cast<int>(ReduceKind::Count)) fail_value("no such reduction");
    return static_cast<ReduceKind>(number);
}

// Before anything is sent: the same on all ranks.
void check_takes(DType dtype, ReduceKind kind) { combine(dtype, kind, nullptr, 1, nullptr, 0); }

PyObject* py_reduce(PyObject* self, PyObject* args) {
    PyObject *text, *tensor;
    double timeout;
    int alone, kind, root;
    if (!PyArg_ParseTuple(args, "OOiidp:reduce", &text, &tensor, &kind, &root, &timeout, &alone)) return nullptr;
    Group& group = communicator(self).open();
    Memory memory;
    const DType dtype = given(tensor).dtype;
    check_takes(dtype, kind_of(kind));
    // The others' data of a reduction to one rank stays as it is.
    Span span = root < 0 || root == group.rank ? writable(tensor, memory) : readable(tensor, memory);
    return begun(self, group.collectives,
                 reduction(group.rank, group.size, text_of(text), dtype, kind_of(kind), span.data,
                           span.size / itemsize(dtype), root),
                 timeout, alone, std::move(memory));
}

// Whether the tensor can be read and written where it is, and nothing that was recorded comes before.
bool at_hand(const Tensor& tensor) {
    return !trace::current && on_host(tensor) && !on_jit_device(tensor) && !is_sparse(tensor) &&
           tensor.device().type != DeviceType::Meta && tensor.contiguous() && !tensor.storage->read_only;
}

PyObject* py_reduce_at_once(PyObject* self, PyObject* const* args, Py_ssize_t given_args) {
    if (given_args != 4) fail_type("reduce_at_once takes 4 arguments");
    Communicator& state = communicator(self);
    if (state.made_in != forks() || !is_tensor(args[1]) || !at_hand(*tensor_of(args[1]))) Py_RETURN_NONE;
    Tensor& tensor = *tensor_of(args[1]);
    CollectiveLane& lane = state.group->collectives;
    const auto count = static_cast<size_t>(tensor.numel);
    if (!lane.small(count * itemsize(tensor.dtype))) Py_RETURN_NONE;
    const ReduceKind kind = kind_of(static_cast<int>(to_int64(args[2])));
    check_takes(tensor.dtype, kind);
    const double timeout = to_double(args[3]);
    const std::string text = text_of(args[0]) + described(tensor) + ')';
    char* data = static_cast<char*>(reachable_place(tensor).data);
    std::shared_ptr<Collective> call;
    const auto how = lane.reduce_at_once(text, tensor.dtype, kind, data, count, limit_of(timeout), call);
    if (how == CollectiveLane::AtOnce::NotBegun) Py_RETURN_NONE;
    ++version_of(tensor);
    if (how == CollectiveLane::AtOnce::Done) Py_RETURN_TRUE;
    return driven(self, lane, std::move(call), {tensor.storage}, [] {}, true);
}

PyObject* py_described(PyObject*, PyObject* tensor) {
    if (!is_tensor(tensor)) fail_type("expected a tensor");
    const std::string text = described(*tensor_of(tensor));
    return PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()));
}

PyObject* py_reduce_by_rank(PyObject* self, PyObject* args) {
    PyObject *text, *operands, *result;
    double timeout;
    int alone, kind;
    if (!PyArg_ParseTuple(args, "OOOidp:reduce_by_rank", &text, &operands, &result, &kind, &timeout, &alone))
        return nullptr;
    Group& group = communicator(self).open();
    Memory memory;
    const DType dtype = given(result).dtype;
    check_takes(dtype, kind_of(kind));
    std::vector<char*> pointers;
    Span out = writable(result, memory);
    PyRef list = checked(PySequence_Fast(operands, "expected a list of tensors"));
    if (PySequence_Fast_GET_SIZE(list.get()) != group.size) fail_value("expected a tensor for each rank");
    for (int rank = 0; rank < group.size; ++rank) {
        PyObject* operand = PySequence_Fast_GET_ITEM(list.get(), rank);
        if (given(operand).dtype != dtype) fail_type("expected tensors of the same dtype");
        Span span = readable(operand, memory);
        if (span.size != out.size) fail_value("expected tensors of the same size");
        pointers.push_back(span.data);
    }
    return begun(self, group.collectives,
                 reduction_by_rank(group.rank, group.size, text_of(text), dtype, kind_of(kind), std::move(pointers),
                                   out.size / itemsize(dtype), out.data),
                 timeout, alone, std::move(memory));
}

MessageHeader header_of(PyObject* object, Span span, int64_t tag) {
    const Tensor& tensor = *tensor_of(object);
    MessageHeader header{};
    header.bytes = span.size;
    header.tag = tag;
    described(tensor).copy(header.text, sizeof header.text - 1);
    return header;
}

PyObject* py_send(PyObject* self, PyObject* args) {
    PyObject *text, *tensor;
    double timeout;
    int alone, to;
    long long tag;
    if (!PyArg_ParseTuple(args, "OOiLdp:send", &text, &tensor, &to, &tag, &timeout, &alone)) return nullptr;
    Group& group = communicator(self).open();
    if (to < 0 || to >= group.size || to == group.rank) fail_value("no other process has that rank");
    Memory memory;
    Span span = readable(tensor, memory);
    auto call = std::make_shared<Send>();
    call->text = text_of(text);
    call->header = header_of(tensor, span, tag);
    call->data = span.data;
    call->to = to;
    return begun(self, group.messages, call, timeout, alone, std::move(memory));
}

PyObject* py_receive(PyObject* self, PyObject* args) {
    PyObject *text, *tensor;
    double timeout;
    int alone, from;
    long long tag;
    if (!PyArg_ParseTuple(args, "OOiLdp:receive", &text, &tensor, &from, &tag, &timeout, &alone)) return nullptr;
    Group& group = communicator(self).open();
    if (from >= group.size || from == group.rank) fail_value("no other process has that rank");
    Memory memory;
    Span span = writable(tensor, memory);
    auto call = std::make_shared<Receive>();
    call->text = text_of(text);
    call->header = header_of(tensor, span, tag);
    call->data = span.data;
    call->from = from;
    return begun(self, group.messages, call, timeout, alone, std::move(memory));
}

PyObject* py_abort(PyObject* self, PyObject* why) {
    Group& group = communicator(self).open();
    const std::string text = text_of(why);
    {
        ReleaseGil gil;
        group.abort(text);
    }
    Py_RETURN_NONE;
}

PyObject* py_leave(PyObject* self, PyObject*) {
    Group& group = communicator(self).open();
    {
        ReleaseGil gil;
        group.leave();
    }
    communicator(self).open();
    Py_RETURN_NONE;
}

PyObject* py_forget(PyObject* self, PyObject*) {
    Group& group = *communicator(self).group;
    group.collectives.forget();
    group.messages.forget();
    Py_RETURN_NONE;
}

PyObject* failure_text(PyObject* self, void*) {
    Group& group = *communicator(self).group;
    if (!group.failure->is_set()) Py_RETURN_NONE;
    const std::string text = group.failure->text();
    return PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace");
}

PyMethodDef communicator_methods[] = {
    {"shared_memory", method<shared_memory>(), METH_O | METH_STATIC,
     "shared_memory(size) -> the descriptor of memory for a group."},
    {"from_shared_memory", method<from_shared_memory>(), METH_VARARGS | METH_STATIC,
     "from_shared_memory(descriptor, rank, size): takes the descriptor over."},
    {"from_sockets", method<from_sockets>(), METH_VARARGS | METH_STATIC,
     "from_sockets(rank, size, descriptors, descriptors): takes them over; the first are for collective calls, the "
     "second for messages, one a rank, -1 for the own."},
    {"start_mpi", method<start_mpi>(), METH_O | METH_STATIC,
     "start_mpi(path) -> (rank, size): loads an MPI library with the standard binary interface, and begins."},
    {"end_mpi", method<end_mpi>(), METH_O | METH_STATIC,
     "end_mpi(seconds): ends MPI. All processes wait for each other; after so many seconds this one leaves it be."},
    {"from_mpi", method<from_mpi>(), METH_VARARGS | METH_STATIC,
     "from_mpi(ranks, tag): the world's ranks that are in the group; all of them call this."},
    {"exchange", method<py_exchange>(), METH_VARARGS,
     "exchange(text, sends, recvs, timeout, alone) -> call. Lists of tensors, or None, for each rank."},
    {"reduce", method<py_reduce>(), METH_VARARGS,
     "reduce(text, tensor, kind, root, timeout, alone) -> call. In place; root -1 is all."},
    {"reduce_at_once", method<py_reduce_at_once>(), METH_FASTCALL,
     "reduce_at_once(head, tensor, kind, timeout): of a small tensor on all ranks; the text is the head, the tensor "
     "and "
     "a bracket. True: done. None: nothing has begun. Else the call, which was waited for."},
    {"described", method<py_described>(), METH_O | METH_STATIC,
     "described(tensor): its dtype and number of elements, as float32[3]."},
    {"reduce_by_rank", method<py_reduce_by_rank>(), METH_VARARGS,
     "reduce_by_rank(text, operands, result, kind, timeout, alone) -> call. A tensor for each rank."},
    {"send", method<py_send>(), METH_VARARGS, "send(text, tensor, rank, tag, timeout, alone) -> call."},
    {"receive", method<py_receive>(), METH_VARARGS,
     "receive(text, tensor, rank, tag, timeout, alone) -> call. Rank -1 is any."},
    {"abort", method<py_abort>(), METH_O, "abort(why): ends all calls with an error, on all ranks."},
    {"leave", method<py_leave>(), METH_NOARGS, "Leaves the group."},
    {"forget", method<py_forget>(), METH_NOARGS, "In a forked child: closes what is the parent's."},
    {}};
PyGetSetDef communicator_attributes[] = {
    {"failure", slot<failure_text>, nullptr, "Why no more calls can be made, or None.", nullptr}, {}};

}  // namespace

bool init_process_group(PyObject* module) {
    CommunicatorType.tp_name = "minitensor._C._Communicator";
    CommunicatorType.tp_doc = "The calls of a group of processes.";
    CommunicatorType.tp_basicsize = sizeof(CommunicatorObject);
    CommunicatorType.tp_flags = Py_TPFLAGS_DEFAULT;
    CommunicatorType.tp_dealloc = slot<communicator_dealloc>;
    CommunicatorType.tp_methods = communicator_methods;
    CommunicatorType.tp_getset = communicator_attributes;
    return PyType_Ready(&CallType) == 0 && PyModule_AddType(module, &CommunicatorType) == 0;
}

}  // namespace mt::py
