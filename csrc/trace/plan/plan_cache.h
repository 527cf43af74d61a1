// The plans of traces that were recorded before, by their signatures.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "trace/plan/plan.h"

namespace mt::trace {

// Bounded by bytes; least recently used plans leave first.
class PlanCache {
  public:
    std::shared_ptr<Plan>* find(const std::vector<uint64_t>& signature, uint64_t hash) {
        auto [first, last] = index_.equal_range(hash);
        for (; first != last; ++first) {
            auto entry = first->second;
            if (entry->signature != signature) continue;
            order_.splice(order_.begin(), order_, entry);
            ++hits;
            return &entry->plan;
        }
        ++misses;
        return nullptr;
    }
    void insert(std::vector<uint64_t> signature, uint64_t hash, uint64_t owner, std::shared_ptr<Plan> plan) {
        size_t size = plan->bytes() + signature.size() * sizeof(uint64_t);
        bytes += size;
        order_.push_front({std::move(signature), hash, owner, size, std::move(plan)});
        index_.emplace(hash, order_.begin());
        shrink();
    }
    // The newest stays, however large.
    void shrink() {
        while (bytes > limit && order_.size() > 1) {
            ++evicted;
            // Last, since what a plan holds may run code when it dies.
            std::shared_ptr<Plan> dying = erase(std::prev(order_.end()));
        }
    }
    void forget(uint64_t owner) {
        std::vector<std::shared_ptr<Plan>> dying;
        for (auto entry = order_.begin(); entry != order_.end();) {
            auto here = entry++;
            if (here->owner == owner) dying.push_back(erase(here));
        }
    }
    void clear() {
        index_.clear();
        bytes = 0;
        auto dying = std::exchange(order_, {});
    }
    size_t size() const { return order_.size(); }
    uint64_t hits = 0, misses = 0, evicted = 0, bytes = 0, limit = uint64_t{64} << 20;

  private:
    struct Entry {
        std::vector<uint64_t> signature;
        uint64_t hash;
        uint64_t owner;
        size_t bytes;
        std::shared_ptr<Plan> plan;
    };

    std::shared_ptr<Plan> erase(std::list<Entry>::iterator entry) {
        auto [first, end] = index_.equal_range(entry->hash);
        for (; first != end; ++first)
            if (first->second == entry) {
                index_.erase(first);
                break;
            }
        bytes -= entry->bytes;
        std::shared_ptr<Plan> plan = std::move(entry->plan);
        order_.erase(entry);
        return plan;
    }

    std::list<Entry> order_;
    std::unordered_multimap<uint64_t, std::list<Entry>::iterator> index_;
};

}  // namespace mt::trace
