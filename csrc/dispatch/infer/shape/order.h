// Inference of what runs along a dimension in order: scans, sort, selections, searches and counts.
#pragma once

#include "dispatch/op.h"

namespace mt {

// The dtype in which a scan's parameter 1 (Type or None) has it run: int64 for integers if it says nothing.
DType scan_dtype(DType input, const Call& call);

// A scan in place can't have another dtype than the tensor: RuntimeError if its parameter 1 gives one.
void check_scan_inplace(const Call& call, const Tensor& destination);

void infer_cumsum(Call& call);        // input; dim, dtype
void infer_cumprod(Call& call);       // input; dim, dtype
void infer_logcumsumexp(Call& call);  // input; dim
void infer_cumprod_backward(Call& call);  // grad, input; dim
// Results: values and indices.
void infer_cummax(Call& call);         // input; dim
void infer_cummin(Call& call);         // input; dim
void infer_sort(Call& call);           // input; dim, descending, stable
void infer_topk(Call& call);           // input; k, dim, largest, sorted
void infer_kthvalue(Call& call);       // input; k, dim, keepdim
void infer_median_dim(Call& call);     // input; dim, keepdim
void infer_nanmedian_dim(Call& call);  // input; dim, keepdim
void infer_median(Call& call);         // input; one result
void infer_nanmedian(Call& call);      // input; one result
void infer_mode(Call& call);           // input; dim, keepdim

void infer_searchsorted(Call& call);  // sorted, values, sorter or none; out_int32, right
void infer_order_rows(Call& call);    // a matrix; the order of its rows
void infer_bincount(Call& call);      // input, weights or none; size
// input [n, k], edges of all dimensions one after the other, weight [n] or none; bins, uniform, search
void infer_histogramdd(Call& call);
void infer_segment_reduce(Call& call);  // data, offsets; kind, initial or none, axis

}  // namespace mt
