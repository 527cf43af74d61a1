// The gradient graph behind the results of a compiled function, as a form from which every call makes one of its own.
#pragma once

#include <algorithm>
#include <functional>
#include <unordered_map>
#include <vector>

#include "autograd/tape.h"
#include "trace/recording/trace.h"

namespace mt::trace {

// What a call that is recorded leaves behind, results that require grad and views, is a graph of tensors and nodes. The
// form of it has no tensors of that call: what they were becomes "argument i", "the memory of value r", or a tensor
// from outside. Nodes keep the order in which the program made them.
class History {
  public:
    // Where the memory of a tensor is at a later call.
    struct Home {
        enum class Type : uint8_t { Unknown, Argument, Fresh, Outside } type = Type::Unknown;
        uint32_t index = 0;      // of the argument, or of the value
        uint32_t others = 0;     // of value's memory: references to it that are no tensors'
    };
    using HomeOf = std::function<Home(const Storage&)>;

    // Takes up a result; its number.
    uint32_t add(Tensor& result);
    // A result that is no part of it, but may show the same memory.
    void add_plain(const Tensor& result) {
        if (std::find(plain_.begin(), plain_.end(), &result) == plain_.end()) plain_.push_back(&result);
    }
    // Finds all that can be reached from the results. Null, or the reason why it can't be made again.
    const char* finish(const std::vector<Tensor*>& arguments, const HomeOf& home_of);

    bool empty() const { return tensors_.empty(); }
    // Values that tensors show: calls need memory for them.
    const std::vector<uint32_t>& fresh() const { return fresh_; }
    // Whether the geometry of an argument's memory is part of the form.
    bool reads_geometry_of(uint32_t argument) const;
    // Whether it holds at this moment: tensors from outside still want gradients, and nobody watches what is saved.
    bool holds() const;

    // The tensors of a call, by the numbers that `add` gave. `memory` has the storages of values. Not to be called by
    // two threads at once.
    std::vector<Ref<Tensor>> make(Tensor* const* arguments, const std::function<Storage*(uint32_t value)>& memory);

  private:
    static constexpr int32_t kNone = -1;

    struct TensorForm {
        Home home;
        bool is_argument = false;  // the very tensor
        Ref<Tensor> outside;       // the very tensor, from outside
        Ref<Storage> memory;       // from outside
        DType dtype{};
        Dims sizes, strides;
        int64_t offset = 0;
        int32_t base = kNone;           // a form,
        int32_t base_argument = kNone;  // or what this argument is a view of, or it
        uint32_t base_back = 0;         // how many writes ago its history was made
        bool unrecorded = false;
        int32_t counter = kNone;        // a count of versions of its own, by its number
        Ref<VersionCounter> outside_counter;  // a tensor's from outside
        bool counts_as_argument = false;
        bool wrapped_number = false, is_inference = false;
        bool has_meta = false, requires_grad = false;
        uint32_t output_index = 0;
        int32_t grad_fn = kNone, accumulator = kNone;
    };
    struct EdgeForm {
        enum class Type : uint8_t { None, Argument, Own, Outside } type = Type::None;
        uint32_t from = 0;  // the argument, or the node
        uint32_t index = 0;
        Ref<GradNode> node;  // from outside: a leaf's
        Ref<Tensor> leaf;
    };
    struct SavedForm {
        int32_t tensor = kNone;
        uint32_t back = 0;  // how many writes ago it was saved
        bool is_output = false, had_history = false;
        uint32_t index = 0;
    };
    // Of a node all that is the same in every call, and forms of what isn't.
    struct NodeForm {
        Ref<GradNode> same;
        uint64_t sequence = 0;
        std::vector<EdgeForm> edges;
        std::vector<SavedForm> saved, outputs;
        int32_t inner = kNone;
        bool is_leaf = false;  // of a tensor that the function made
    };

    // The nodes of a call that keep nothing of it, to be those of a later call once nobody has any of them.
    using Nodes = std::vector<Ref<GradNode>>;
    static constexpr size_t kSpares = 2;  // in `loss = step()` the last call's are still there while the next one runs

    Nodes make_nodes() const;
    // The nodes of an earlier call if nobody has them any more, else new ones.
    Nodes take_nodes();
    bool is_spare(const Nodes& nodes) const;
    void connect(const Nodes& nodes, Tensor* const* arguments, const std::vector<Ref<Tensor>>& tensors) const;
    bool keeps_nothing() const;
    uint32_t tensor(Tensor& tensor);
    int32_t node(GradNode& node);
    EdgeForm edge(const Edge& edge);
    SavedForm saved(const SavedTensor& saved);
    void look_at(size_t number);
    void look_into(size_t number);
    bool is_kept_elsewhere() const;
    void refuse(const char* why) {
        if (!why_) why_ = why;
    }

    const char* why_ = nullptr;
    std::vector<TensorForm> tensors_;
    std::vector<NodeForm> nodes_;
    std::vector<uint32_t> order_;  // of the nodes, as they were made
    std::vector<uint32_t> fresh_;
    std::vector<Ref<Tensor>> wanted_;  // leaves from outside
    std::vector<Ref<VersionCounter>> counters_;
    bool reuses_nodes_ = false;
    std::vector<uint32_t> own_references_;  // to each node, by other nodes, and by `spares_`
    std::vector<Nodes> spares_;
    size_t next_spare_ = 0;

    // While it is made: what was met, with its number, and where memory is.
    std::vector<Tensor*> met_;
    std::vector<Ref<GradNode>> met_nodes_;
    std::unordered_map<const void*, uint32_t> numbers_;
    std::vector<const Tensor*> plain_;
    size_t results_ = 0;  // the first forms
    const std::vector<Tensor*>* arguments_ = nullptr;
    const HomeOf* home_of_ = nullptr;
};

}  // namespace mt::trace
