// Autocast: operands of ops that say so are cast before the call. The casts are calls of `cast`, recorded and
// differentiated like any other. Those of leaves are kept until the outermost autocast ends, so that a weight that is
// used many times is cast once, and its gradients are added before they are cast back.
#pragma once

#include "dispatch/call.h"
#include "dispatch/thread_local_state.h"

namespace mt {

// Puts autocast's rule into dispatch.
void install_autocast();

// Whether an autocast on this tensor's device would cast it, and whether that is a GPU's. Only real floating-point
// tensors are cast, and none of float64.
bool autocast_takes(const Tensor& tensor, bool* gpu);
// The dtype that a tensor of a call goes to; what CastTo::Widest means is asked for all of its tensors, one by one.
class CastTarget {
  public:
    CastTarget(CastTo rule, bool gpu);
    void see(const Tensor& tensor);
    // `tensor` as the call gets it: itself, or cast.
    Ref<Tensor> operator()(Tensor& tensor) const;

  private:
    bool fixed_ = true;  // false: the widest that was seen
    bool off_ = false;
    DType dtype_;
};

// How many contexts of autocast are entered on this thread; kept casts go when it becomes 0.
int enter_autocast();
int leave_autocast();
int autocast_nesting();
void clear_autocast_cache();
// The kept casts that the function which is recorded made: they are values of its trace.
void forget_casts_of_function();

}  // namespace mt
