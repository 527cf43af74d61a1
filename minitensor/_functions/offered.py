"""The functions of the package, by all their names. Written by scripts/generate_functions."""

from minitensor import (
    _C,
    _config,
    _tensor,
    composite,
    creation,
    dtypes,
    functional,
    ops,
    random,
    settings,
)
from minitensor._C import Tensor
from minitensor._functions.checked import checked, function_form, not_overridden
from minitensor.composite import COMPOSITES
from minitensor.ops import ROWS

alias_copy = COMPOSITES["alias_copy"].call
as_strided_copy = COMPOSITES["as_strided_copy"].call
bartlett_window = checked(COMPOSITES["bartlett_window"].call)
bitwise_left_shift = ROWS["bitwise_left_shift"].call
bitwise_right_shift = ROWS["bitwise_right_shift"].call
blackman_window = checked(COMPOSITES["blackman_window"].call)
ccol_indices_copy = checked(COMPOSITES["ccol_indices_copy"].call)
col_indices_copy = checked(COMPOSITES["col_indices_copy"].call)
crow_indices_copy = checked(COMPOSITES["crow_indices_copy"].call)
detach_copy = COMPOSITES["detach_copy"].call
diagonal_copy = COMPOSITES["diagonal_copy"].call
expand_copy = COMPOSITES["expand_copy"].call
hamming_window = checked(COMPOSITES["hamming_window"].call)
hann_window = checked(COMPOSITES["hann_window"].call)
indices_copy = checked(COMPOSITES["indices_copy"].call)
isneginf = ROWS["isneginf"].call
isposinf = ROWS["isposinf"].call
kaiser_window = checked(COMPOSITES["kaiser_window"].call)
permute_copy = COMPOSITES["permute_copy"].call
row_indices_copy = checked(COMPOSITES["row_indices_copy"].call)
select_copy = COMPOSITES["select_copy"].call
signbit = ROWS["signbit"].call
slice_copy = COMPOSITES["slice_copy"].call
split_copy = COMPOSITES["split_copy"].call
split_with_sizes_copy = COMPOSITES["split_with_sizes_copy"].call
squeeze_copy = COMPOSITES["squeeze_copy"].call
t_copy = COMPOSITES["t_copy"].call
transpose_copy = COMPOSITES["transpose_copy"].call
unbind_copy = COMPOSITES["unbind_copy"].call
unfold_copy = COMPOSITES["unfold_copy"].call
unsqueeze_copy = COMPOSITES["unsqueeze_copy"].call
values_copy = checked(COMPOSITES["values_copy"].call)

# _config
show_config = not_overridden(_config.show_config)

# _tensor.printing
set_printoptions = not_overridden(_tensor.printing.set_printoptions)

# _tensor.typed_tensors
set_default_tensor_type = not_overridden(_tensor.typed_tensors.set_default_tensor_type)
tensor_of_default_type = not_overridden(_tensor.typed_tensors.tensor_of_default_type)

# composite.complex
complex = checked(composite.complex._complex)
conj = checked(composite.complex.conj)
conj_physical = composite.complex._conj_physical
imag = checked(composite.complex.imag)
is_conj = checked(composite.complex.is_conj)
is_neg = checked(composite.complex.is_neg)
polar = checked(composite.complex.polar)
real = checked(composite.complex.real)
resolve_conj = checked(composite.complex.resolve_conj)
resolve_neg = checked(composite.complex.resolve_neg)

# composite.copies
narrow_copy = composite.copies.narrow_copy
view_copy = composite.copies.view_copy

# composite.creation
arange = checked(composite.creation.arange)
empty = checked(composite.creation.empty)
empty_like = checked(composite.creation.empty_like)
empty_permuted = checked(composite.creation.empty_permuted)
empty_strided = checked(composite.creation.empty_strided)
eye = checked(composite.creation.eye)
full = checked(composite.creation.full)
full_like = checked(composite.creation.full_like)
linspace = checked(composite.creation.linspace)
logspace = checked(composite.creation.logspace)
ones = checked(composite.creation.ones)
ones_like = checked(composite.creation.ones_like)
range = checked(composite.creation._range)
scalar_tensor = checked(composite.creation.scalar_tensor)
zeros = checked(composite.creation.zeros)
zeros_like = checked(composite.creation.zeros_like)

# composite.diagonals
as_strided_scatter = checked(composite.diagonals.as_strided_scatter)
diag = composite.diagonals.diag
diag_embed = checked(composite.diagonals.diag_embed)
diagflat = checked(composite.diagonals.diagflat)
diagonal_scatter = checked(composite.diagonals.diagonal_scatter)
select_scatter = checked(composite.diagonals.select_scatter)
slice_scatter = composite.diagonals.slice_scatter
unravel_index = checked(composite.diagonals.unravel_index)
vander = checked(composite.diagonals.vander)

# composite.differences
gradient = checked(composite.differences.gradient)

# composite.distance
cdist = checked(composite.distance.cdist)
pdist = checked(composite.distance.pdist)

# composite.gamma
mvlgamma = composite.gamma.mvlgamma
polygamma = composite.gamma.polygamma

# composite.gather_scatter
gather = composite.gather_scatter.gather
scatter = composite.gather_scatter._scatter
scatter_add = composite.gather_scatter.scatter_add
scatter_reduce = composite.gather_scatter.scatter_reduce
take_along_dim = composite.gather_scatter.take_along_dim

# composite.indexing
argwhere = checked(composite.indexing.argwhere)
index_add = composite.indexing.index_add
index_copy = composite.indexing.index_copy
index_fill = checked(composite.indexing.index_fill)
index_put = checked(composite.indexing.index_put)
index_reduce = composite.indexing.index_reduce
index_select = composite.indexing.index_select
isin = composite.indexing.isin
masked_scatter = checked(composite.indexing.masked_scatter)
nonzero = composite.indexing.nonzero
nonzero_static = composite.indexing.nonzero_static
put = checked(composite.indexing.put)
take = composite.indexing.take
where = composite.indexing.where

# composite.joining
block_diag = checked(composite.joining.block_diag)
cartesian_prod = checked(composite.joining.cartesian_prod)
chunk = checked(composite.joining.chunk)
column_stack = composite.joining.column_stack
combinations = checked(composite.joining.combinations)
dsplit = checked(composite.joining.dsplit)
dstack = composite.joining.dstack
hsplit = checked(composite.joining.hsplit)
hstack = composite.joining.hstack
meshgrid = checked(composite.joining.meshgrid)
row_stack = composite.joining.vstack
split = checked(composite.joining.split)
split_with_sizes = checked(composite.joining.split_with_sizes)
stack = composite.joining.stack
tensor_split = checked(composite.joining.tensor_split)
unsafe_chunk = checked(composite.joining.unsafe_chunk)
unsafe_split = checked(composite.joining.unsafe_split)
unsafe_split_with_sizes = checked(composite.joining.unsafe_split_with_sizes)
vsplit = checked(composite.joining.vsplit)
vstack = composite.joining.vstack

# composite.layout
clone = checked(composite.layout.clone)
numel = checked(composite.layout.numel)
slice_inverse = checked(composite.layout.slice_inverse)

# composite.linalg.contraction
addbmm = composite.linalg.contraction.addbmm
addmm = composite.linalg.contraction.addmm
addmv = composite.linalg.contraction.addmv
addr = composite.linalg.contraction.addr
baddbmm = composite.linalg.contraction.baddbmm
bilinear = checked(composite.linalg.contraction.bilinear)
bmm = composite.linalg.contraction.bmm
chain_matmul = composite.linalg.contraction.chain_matmul
cross = composite.linalg.contraction.cross
dot = composite.linalg.contraction.dot
ger = composite.linalg.contraction.outer
inner = composite.linalg.contraction.inner
kron = composite.linalg.contraction.kron
mm = composite.linalg.contraction.mm
mv = composite.linalg.contraction.mv
outer = composite.linalg.contraction.outer
tensordot = composite.linalg.contraction.tensordot
trace = checked(composite.linalg.contraction.trace)
vdot = composite.linalg.contraction.vdot

# composite.linalg.einsum
einsum = checked(composite.linalg.einsum.einsum)

# composite.linalg.functions
cholesky = composite.linalg.functions.cholesky
cholesky_inverse = composite.linalg.functions.cholesky_inverse
cholesky_solve = composite.linalg.functions.cholesky_solve
det = composite.linalg.functions.det
eig = checked(composite.linalg.functions.eig)
geqrf = composite.linalg.functions.geqrf
inverse = composite.linalg.functions.inverse
logdet = checked(composite.linalg.functions.logdet)
lstsq = checked(composite.linalg.functions.lstsq)
lu = checked(composite.linalg.functions.lu)
lu_solve = composite.linalg.functions.lu_solve
lu_unpack = composite.linalg.functions.lu_unpack
matrix_exp = checked(composite.linalg.functions.matrix_exp)
matrix_power = composite.linalg.functions.matrix_power
matrix_rank = checked(composite.linalg.functions.matrix_rank)
orgqr = composite.linalg.functions.orgqr
ormqr = composite.linalg.functions.ormqr
pinverse = checked(composite.linalg.functions.pinverse)
qr = composite.linalg.functions.qr
slogdet = composite.linalg.functions.slogdet
solve = checked(composite.linalg.functions.solve)
svd = composite.linalg.functions.svd
symeig = checked(composite.linalg.functions.symeig)
triangular_solve = composite.linalg.functions.triangular_solve

# composite.linalg.lowrank
lobpcg = checked(composite.linalg.lowrank.lobpcg)
pca_lowrank = checked(composite.linalg.lowrank.pca_lowrank)
svd_lowrank = checked(composite.linalg.lowrank.svd_lowrank)

# composite.metadata
detach = checked(composite.metadata.detach)
fill = checked(composite.metadata.fill)
from_file = checked(composite.metadata.from_file)
frombuffer = checked(composite.metadata.frombuffer)
get_device = checked(composite.metadata.get_device)
is_inference = checked(composite.metadata.is_inference)
is_nonzero = checked(composite.metadata.is_nonzero)
is_same_size = checked(composite.metadata.is_same_size)
is_signed = checked(composite.metadata.is_signed)
is_storage = checked(composite.metadata.is_storage)
to_dlpack = checked(composite.metadata.to_dlpack)
view_as_complex_copy = composite.metadata.view_as_complex_copy
view_as_real_copy = composite.metadata.view_as_real_copy

# composite.order
argsort = checked(composite.order.argsort)
bucketize = composite.order.bucketize
median = composite.order.median
msort = composite.order.msort
nanmedian = composite.order.nanmedian
nanquantile = composite.order.nanquantile
quantile = composite.order.quantile
searchsorted = composite.order.searchsorted
sort = composite.order.sort
unique = checked(composite.order.unique)
unique_consecutive = checked(composite.order.unique_consecutive)

# composite.pointwise
add = composite.pointwise.add
addcdiv = composite.pointwise.addcdiv
addcmul = composite.pointwise.addcmul
clamp = composite.pointwise.clamp
clamp_max = composite.pointwise.clamp_max
clamp_min = composite.pointwise.clamp_min
clip = composite.pointwise.clamp
deg2rad = composite.pointwise.deg2rad
div = composite.pointwise.div
divide = composite.pointwise.div
fix = composite.pointwise.fix
float_power = composite.pointwise.float_power
frexp = composite.pointwise.frexp
isclose = checked(composite.pointwise.isclose)
isreal = checked(composite.pointwise.isreal)
ldexp = composite.pointwise.ldexp
lerp = composite.pointwise.lerp
logaddexp = composite.pointwise.logaddexp
logit = composite.pointwise.logit
nan_to_num = composite.pointwise.nan_to_num
positive = checked(composite.pointwise.positive)
prelu = checked(composite.pointwise.prelu)
rad2deg = composite.pointwise.rad2deg
round = composite.pointwise._round
rsub = checked(composite.pointwise.rsub)
sub = composite.pointwise.sub
subtract = composite.pointwise.sub

# composite.random.tensors
_sample_dirichlet = composite.random.tensors.sample_dirichlet
_standard_gamma = composite.random.tensors.standard_gamma
bernoulli = checked(composite.random.tensors.bernoulli)
binomial = checked(composite.random.tensors.binomial)
multinomial = checked(composite.random.tensors.multinomial)
normal = checked(composite.random.tensors.normal)
poisson = checked(composite.random.tensors.poisson)
rand = checked(composite.random.tensors.rand)
rand_like = checked(composite.random.tensors.rand_like)
randint = checked(composite.random.tensors.randint)
randint_like = checked(composite.random.tensors.randint_like)
randn = checked(composite.random.tensors.randn)
randn_like = checked(composite.random.tensors.randn_like)
randperm = checked(composite.random.tensors.randperm)

# composite.reduction
allclose = checked(composite.reduction.allclose)
aminmax = composite.reduction.aminmax
count_nonzero = checked(composite.reduction.count_nonzero)
dist = checked(composite.reduction.dist)
equal = checked(composite.reduction.equal)
frobenius_norm = composite.reduction.frobenius_norm
hash_tensor = composite.reduction.hash_tensor
logsumexp = composite.reduction.logsumexp
max = composite.reduction._max
min = composite.reduction._min
nanmean = composite.reduction.nanmean
norm = composite.reduction.norm
norm_except_dim = checked(composite.reduction.norm_except_dim)
nuclear_norm = composite.reduction.nuclear_norm
renorm = composite.reduction.renorm
std = composite.reduction.std
std_mean = checked(composite.reduction.std_mean)
var = composite.reduction.var
var_mean = checked(composite.reduction.var_mean)

# composite.shape
adjoint = checked(composite.shape.adjoint)
atleast_1d = checked(composite.shape.atleast_1d)
atleast_2d = checked(composite.shape.atleast_2d)
atleast_3d = checked(composite.shape.atleast_3d)
broadcast_shapes = checked(composite.shape.broadcast_shapes)
broadcast_tensors = checked(composite.shape.broadcast_tensors)
broadcast_to = checked(composite.shape.broadcast_to)
flatten = checked(composite.shape.flatten)
fliplr = checked(composite.shape.fliplr)
flipud = checked(composite.shape.flipud)
moveaxis = checked(composite.shape.movedim)
movedim = checked(composite.shape.movedim)
narrow = checked(composite.shape.narrow)
ravel = checked(composite.shape.ravel)
repeat_interleave = checked(composite.shape.repeat_interleave)
reshape = checked(composite.shape.reshape)
rot90 = checked(composite.shape.rot90)
swapaxes = checked(composite.shape.swapaxes)
swapdims = checked(composite.shape.swapaxes)
t = checked(composite.shape.t)
tile = checked(composite.shape.tile)
unbind = checked(composite.shape.unbind)
unflatten = checked(composite.shape.unflatten)

# composite.sparse
dsmm = checked(composite.sparse.spmm)
hsmm = checked(composite.sparse.hspmm)
hspmm = checked(composite.sparse.hspmm)
native_norm = checked(composite.sparse.native_norm)
resize_as_sparse_ = checked(composite.sparse.resize_as_sparse_)
saddmm = checked(composite.sparse.saddmm)
smm = checked(composite.sparse.smm)
spmm = checked(composite.sparse.spmm)
sspaddmm = checked(composite.sparse.sspaddmm)

# composite.spectral
istft = checked(composite.spectral.istft)
stft = checked(composite.spectral.stft)

# composite.statistics
bincount = checked(composite.statistics.bincount)
corrcoef = checked(composite.statistics.corrcoef)
cov = checked(composite.statistics.cov)
cumulative_trapezoid = checked(composite.statistics.cumulative_trapezoid)
diff = composite.statistics.diff
histc = composite.statistics.histc
histogram = composite.statistics.histogram
histogramdd = checked(composite.statistics.histogramdd)
segment_reduce = checked(composite.statistics.segment_reduce)
trapezoid = checked(composite.statistics.trapezoid)
trapz = checked(composite.statistics.trapezoid)

# creation
as_tensor = checked(creation.as_tensor)
asarray = checked(creation.asarray)
from_dlpack = checked(creation.from_dlpack)
from_numpy = creation.from_numpy
tensor = checked(creation.tensor)

# dtypes
can_cast = checked(dtypes.can_cast)
is_complex = checked(dtypes.is_complex)
is_floating_point = checked(dtypes.is_floating_point)
promote_types = checked(dtypes.promote_types)
result_type = checked(dtypes.result_type)

# functional
is_tensor = not_overridden(functional.is_tensor)
typename = not_overridden(functional.typename)

# ops.complex
angle = ops.complex.angle
sgn = ops.complex.sgn
view_as_complex = ops.complex.view_as_complex
view_as_real = ops.complex.view_as_real

# ops.contraction
matmul = ops.contraction.matmul

# ops.creation
tril_indices = ops.creation.tril_indices
triu_indices = ops.creation.triu_indices

# ops.elementwise
abs = ops.elementwise.abs
absolute = ops.elementwise.abs
bitwise_and = ops.elementwise.bitwise_and
bitwise_not = ops.elementwise.bitwise_not
bitwise_or = ops.elementwise.bitwise_or
bitwise_xor = ops.elementwise.bitwise_xor
ceil = ops.elementwise.ceil
eq = ops.elementwise.eq
exp = ops.elementwise.exp
floor = ops.elementwise.floor
floor_divide = ops.elementwise.floor_divide
ge = ops.elementwise.ge
greater = ops.elementwise.gt
greater_equal = ops.elementwise.ge
gt = ops.elementwise.gt
isfinite = ops.elementwise.isfinite
isinf = ops.elementwise.isinf
isnan = ops.elementwise.isnan
le = ops.elementwise.le
less = ops.elementwise.lt
less_equal = ops.elementwise.le
log = ops.elementwise.log
logical_and = ops.elementwise.logical_and
logical_not = ops.elementwise.logical_not
logical_or = ops.elementwise.logical_or
logical_xor = ops.elementwise.logical_xor
lt = ops.elementwise.lt
maximum = ops.elementwise.maximum
minimum = ops.elementwise.minimum
mul = ops.elementwise.mul
multiply = ops.elementwise.mul
ne = ops.elementwise.ne
neg = ops.elementwise.neg
negative = ops.elementwise.neg
not_equal = ops.elementwise.ne
pow = ops.elementwise.pow
reciprocal = ops.elementwise.reciprocal
relu = ops.elementwise.relu
remainder = ops.elementwise.remainder
rsqrt = ops.elementwise.rsqrt
sigmoid = ops.elementwise.sigmoid
sign = ops.elementwise.sign
sqrt = ops.elementwise.sqrt
square = ops.elementwise.square
tanh = ops.elementwise.tanh
true_divide = ops.elementwise.div
trunc = ops.elementwise.trunc

# ops.index
nll_loss = ops.index.nll_loss

# ops.mask
masked_fill = ops.mask.masked_fill
masked_select = ops.mask.masked_select

# ops.movement
alias = ops.movement.alias
as_strided = ops.movement.as_strided
cat = ops.movement.cat
concat = ops.movement.cat
concatenate = ops.movement.cat
constant_pad_nd = ops.movement.constant_pad_nd
diagonal = ops.movement.diagonal
expand = ops.movement.expand
flip = ops.movement.flip
permute = ops.movement.permute
roll = ops.movement.roll
select = ops.movement.select
slice = ops.movement.slice
squeeze = ops.movement.squeeze
transpose = ops.movement.transpose
tril = ops.movement.tril
triu = ops.movement.triu
unfold = ops.movement.unfold
unsqueeze = ops.movement.unsqueeze

# ops.nn.activation
celu = ops.nn.activation.celu
hardshrink = ops.nn.activation.hardshrink
selu = ops.nn.activation.selu
threshold = ops.nn.activation.threshold

# ops.nn.softmax
log_softmax = ops.nn.softmax.log_softmax
softmax = ops.nn.softmax.softmax

# ops.pointwise
acos = ops.pointwise.acos
acosh = ops.pointwise.acosh
arccos = ops.pointwise.acos
arccosh = ops.pointwise.acosh
arcsin = ops.pointwise.asin
arcsinh = ops.pointwise.asinh
arctan = ops.pointwise.atan
arctan2 = ops.pointwise.atan2
arctanh = ops.pointwise.atanh
asin = ops.pointwise.asin
asinh = ops.pointwise.asinh
atan = ops.pointwise.atan
atan2 = ops.pointwise.atan2
atanh = ops.pointwise.atanh
copysign = ops.pointwise.copysign
cos = ops.pointwise.cos
cosh = ops.pointwise.cosh
erf = ops.pointwise.erf
exp2 = ops.pointwise.exp2
expm1 = ops.pointwise.expm1
fmax = ops.pointwise.fmax
fmin = ops.pointwise.fmin
fmod = ops.pointwise.fmod
frac = ops.pointwise.frac
gcd = ops.pointwise.gcd
heaviside = ops.pointwise.heaviside
hypot = ops.pointwise.hypot
lcm = ops.pointwise.lcm
log10 = ops.pointwise.log10
log1p = ops.pointwise.log1p
log2 = ops.pointwise.log2
logaddexp2 = ops.pointwise.logaddexp2
nextafter = ops.pointwise.nextafter
sin = ops.pointwise.sin
sinc = ops.pointwise.sinc
sinh = ops.pointwise.sinh
tan = ops.pointwise.tan
xlogy = ops.pointwise.xlogy

# ops.reduction
all = ops.reduction.all
amax = ops.reduction.amax
amin = ops.reduction.amin
any = ops.reduction.any
argmax = ops.reduction.argmax
argmin = ops.reduction.argmin
mean = ops.reduction.mean
nansum = ops.reduction.nansum
prod = ops.reduction.prod
sum = ops.reduction.sum

# ops.scan
cummax = ops.scan.cummax
cummin = ops.scan.cummin
cumprod = ops.scan.cumprod
cumsum = ops.scan.cumsum
logcumsumexp = ops.scan.logcumsumexp

# ops.sort
kthvalue = ops.sort.kthvalue
mode = ops.sort.mode
topk = ops.sort.topk

# ops.special
digamma = ops.special.digamma
erfc = ops.special.erfc
erfinv = ops.special.erfinv
i0 = ops.special.i0
igamma = ops.special.igamma
igammac = ops.special.igammac
lgamma = ops.special.lgamma

# random
get_rng_state = random.get_rng_state
initial_seed = random.initial_seed
manual_seed = not_overridden(random.manual_seed)
seed = random.seed
set_rng_state = not_overridden(random.set_rng_state)

# settings
are_deterministic_algorithms_enabled = settings.are_deterministic_algorithms_enabled
compiled_with_cxx11_abi = settings.compiled_with_cxx11_abi
get_deterministic_debug_mode = settings.get_deterministic_debug_mode
get_device_module = not_overridden(settings.get_device_module)
get_float32_matmul_precision = settings.get_float32_matmul_precision
get_num_interop_threads = settings.get_num_interop_threads
init_num_threads = settings.init_num_threads
is_anomaly_check_nan_enabled = settings.is_anomaly_check_nan_enabled
is_anomaly_enabled = settings.is_anomaly_enabled
is_deterministic_algorithms_warn_only_enabled = settings.is_deterministic_algorithms_warn_only_enabled
is_warn_always_enabled = settings.is_warn_always_enabled
set_anomaly_enabled = not_overridden(settings.set_anomaly_enabled)
set_deterministic_debug_mode = not_overridden(settings.set_deterministic_debug_mode)
set_float32_matmul_precision = not_overridden(settings.set_float32_matmul_precision)
set_flush_denormal = not_overridden(settings.set_flush_denormal)
set_num_interop_threads = not_overridden(settings.set_num_interop_threads)
set_warn_always = not_overridden(settings.set_warn_always)
thread_safe_generator = settings.thread_safe_generator
use_deterministic_algorithms = not_overridden(settings.use_deterministic_algorithms)

# Methods in place, as functions.
abs_ = function_form(Tensor.abs_)
absolute_ = function_form(Tensor.absolute_)
acos_ = function_form(Tensor.acos_)
acosh_ = function_form(Tensor.acosh_)
add_ = function_form(Tensor.add_)
addbmm_ = function_form(Tensor.addbmm_)
addcdiv_ = function_form(Tensor.addcdiv_)
addcmul_ = function_form(Tensor.addcmul_)
addmm_ = function_form(Tensor.addmm_)
addmv_ = function_form(Tensor.addmv_)
addr_ = function_form(Tensor.addr_)
apply_ = function_form(Tensor.apply_)
arccos_ = function_form(Tensor.arccos_)
arccosh_ = function_form(Tensor.arccosh_)
arcsin_ = function_form(Tensor.arcsin_)
arcsinh_ = function_form(Tensor.arcsinh_)
arctan2_ = function_form(Tensor.arctan2_)
arctan_ = function_form(Tensor.arctan_)
arctanh_ = function_form(Tensor.arctanh_)
as_strided_ = function_form(Tensor.as_strided_)
asin_ = function_form(Tensor.asin_)
asinh_ = function_form(Tensor.asinh_)
atan2_ = function_form(Tensor.atan2_)
atan_ = function_form(Tensor.atan_)
atanh_ = function_form(Tensor.atanh_)
baddbmm_ = function_form(Tensor.baddbmm_)
bernoulli_ = function_form(Tensor.bernoulli_)
bitwise_and_ = function_form(Tensor.bitwise_and_)
bitwise_left_shift_ = function_form(Tensor.bitwise_left_shift_)
bitwise_not_ = function_form(Tensor.bitwise_not_)
bitwise_or_ = function_form(Tensor.bitwise_or_)
bitwise_right_shift_ = function_form(Tensor.bitwise_right_shift_)
bitwise_xor_ = function_form(Tensor.bitwise_xor_)
cauchy_ = function_form(Tensor.cauchy_)
ceil_ = function_form(Tensor.ceil_)
celu_ = _C.inplace_form(celu)
clamp_ = function_form(Tensor.clamp_)
clamp_max_ = function_form(Tensor.clamp_max_)
clamp_min_ = function_form(Tensor.clamp_min_)
clip_ = function_form(Tensor.clip_)
conj_physical_ = function_form(Tensor.conj_physical_)
copy_ = function_form(Tensor.copy_)
copysign_ = function_form(Tensor.copysign_)
cos_ = function_form(Tensor.cos_)
cosh_ = function_form(Tensor.cosh_)
cumprod_ = function_form(Tensor.cumprod_)
cumsum_ = function_form(Tensor.cumsum_)
deg2rad_ = function_form(Tensor.deg2rad_)
detach_ = function_form(Tensor.detach_)
digamma_ = function_form(Tensor.digamma_)
div_ = function_form(Tensor.div_)
divide_ = function_form(Tensor.divide_)
eq_ = function_form(Tensor.eq_)
erf_ = function_form(Tensor.erf_)
erfc_ = function_form(Tensor.erfc_)
erfinv_ = function_form(Tensor.erfinv_)
exp2_ = function_form(Tensor.exp2_)
exp_ = function_form(Tensor.exp_)
expm1_ = function_form(Tensor.expm1_)
exponential_ = function_form(Tensor.exponential_)
fill_ = function_form(Tensor.fill_)
fill_diagonal_ = function_form(Tensor.fill_diagonal_)
fix_ = function_form(Tensor.fix_)
float_power_ = function_form(Tensor.float_power_)
floor_ = function_form(Tensor.floor_)
floor_divide_ = function_form(Tensor.floor_divide_)
fmod_ = function_form(Tensor.fmod_)
frac_ = function_form(Tensor.frac_)
gcd_ = function_form(Tensor.gcd_)
ge_ = function_form(Tensor.ge_)
geometric_ = function_form(Tensor.geometric_)
greater_ = function_form(Tensor.greater_)
greater_equal_ = function_form(Tensor.greater_equal_)
gt_ = function_form(Tensor.gt_)
heaviside_ = function_form(Tensor.heaviside_)
hypot_ = function_form(Tensor.hypot_)
i0_ = function_form(Tensor.i0_)
igamma_ = function_form(Tensor.igamma_)
igammac_ = function_form(Tensor.igammac_)
index_add_ = function_form(Tensor.index_add_)
index_copy_ = function_form(Tensor.index_copy_)
index_fill_ = function_form(Tensor.index_fill_)
index_put_ = function_form(Tensor.index_put_)
index_reduce_ = function_form(Tensor.index_reduce_)
lcm_ = function_form(Tensor.lcm_)
ldexp_ = function_form(Tensor.ldexp_)
le_ = function_form(Tensor.le_)
lerp_ = function_form(Tensor.lerp_)
less_ = function_form(Tensor.less_)
less_equal_ = function_form(Tensor.less_equal_)
lgamma_ = function_form(Tensor.lgamma_)
log10_ = function_form(Tensor.log10_)
log1p_ = function_form(Tensor.log1p_)
log2_ = function_form(Tensor.log2_)
log_ = function_form(Tensor.log_)
log_normal_ = function_form(Tensor.log_normal_)
logical_and_ = function_form(Tensor.logical_and_)
logical_not_ = function_form(Tensor.logical_not_)
logical_or_ = function_form(Tensor.logical_or_)
logical_xor_ = function_form(Tensor.logical_xor_)
logit_ = function_form(Tensor.logit_)
lt_ = function_form(Tensor.lt_)
map2_ = function_form(Tensor.map2_)
map_ = function_form(Tensor.map_)
masked_fill_ = function_form(Tensor.masked_fill_)
masked_scatter_ = function_form(Tensor.masked_scatter_)
mul_ = function_form(Tensor.mul_)
multiply_ = function_form(Tensor.multiply_)
mvlgamma_ = function_form(Tensor.mvlgamma_)
nan_to_num_ = function_form(Tensor.nan_to_num_)
ne_ = function_form(Tensor.ne_)
neg_ = function_form(Tensor.neg_)
negative_ = function_form(Tensor.negative_)
nextafter_ = function_form(Tensor.nextafter_)
normal_ = function_form(Tensor.normal_)
not_equal_ = function_form(Tensor.not_equal_)
polygamma_ = function_form(Tensor.polygamma_)
pow_ = function_form(Tensor.pow_)
put_ = function_form(Tensor.put_)
rad2deg_ = function_form(Tensor.rad2deg_)
random_ = function_form(Tensor.random_)
reciprocal_ = function_form(Tensor.reciprocal_)
relu_ = function_form(Tensor.relu_)
remainder_ = function_form(Tensor.remainder_)
renorm_ = function_form(Tensor.renorm_)
requires_grad_ = function_form(Tensor.requires_grad_)
resize_ = function_form(Tensor.resize_)
resize_as_ = function_form(Tensor.resize_as_)
round_ = function_form(Tensor.round_)
rsqrt_ = function_form(Tensor.rsqrt_)
scatter_ = function_form(Tensor.scatter_)
scatter_add_ = function_form(Tensor.scatter_add_)
scatter_reduce_ = function_form(Tensor.scatter_reduce_)
selu_ = _C.inplace_form(selu)
set_ = function_form(Tensor.set_)
sgn_ = function_form(Tensor.sgn_)
share_memory_ = function_form(Tensor.share_memory_)
sigmoid_ = function_form(Tensor.sigmoid_)
sign_ = function_form(Tensor.sign_)
sin_ = function_form(Tensor.sin_)
sinc_ = function_form(Tensor.sinc_)
sinh_ = function_form(Tensor.sinh_)
sparse_resize_ = function_form(Tensor.sparse_resize_)
sparse_resize_and_clear_ = function_form(Tensor.sparse_resize_and_clear_)
sqrt_ = function_form(Tensor.sqrt_)
square_ = function_form(Tensor.square_)
squeeze_ = function_form(Tensor.squeeze_)
sub_ = function_form(Tensor.sub_)
subtract_ = function_form(Tensor.subtract_)
swapaxes_ = function_form(Tensor.swapaxes_)
swapdims_ = function_form(Tensor.swapdims_)
t_ = function_form(Tensor.t_)
tan_ = function_form(Tensor.tan_)
tanh_ = function_form(Tensor.tanh_)
threshold_ = _C.inplace_form(threshold)
transpose_ = function_form(Tensor.transpose_)
tril_ = function_form(Tensor.tril_)
triu_ = function_form(Tensor.triu_)
true_divide_ = function_form(Tensor.true_divide_)
trunc_ = function_form(Tensor.trunc_)
uniform_ = function_form(Tensor.uniform_)
unsqueeze_ = function_form(Tensor.unsqueeze_)
xlogy_ = function_form(Tensor.xlogy_)
zero_ = function_form(Tensor.zero_)

__all__ = [  # noqa: RUF022  (as Python sorts)
    "_sample_dirichlet",
    "_standard_gamma",
    "abs",
    "abs_",
    "absolute",
    "absolute_",
    "acos",
    "acos_",
    "acosh",
    "acosh_",
    "add",
    "add_",
    "addbmm",
    "addbmm_",
    "addcdiv",
    "addcdiv_",
    "addcmul",
    "addcmul_",
    "addmm",
    "addmm_",
    "addmv",
    "addmv_",
    "addr",
    "addr_",
    "adjoint",
    "alias",
    "alias_copy",
    "all",
    "allclose",
    "amax",
    "amin",
    "aminmax",
    "angle",
    "any",
    "apply_",
    "arange",
    "arccos",
    "arccos_",
    "arccosh",
    "arccosh_",
    "arcsin",
    "arcsin_",
    "arcsinh",
    "arcsinh_",
    "arctan",
    "arctan2",
    "arctan2_",
    "arctan_",
    "arctanh",
    "arctanh_",
    "are_deterministic_algorithms_enabled",
    "argmax",
    "argmin",
    "argsort",
    "argwhere",
    "as_strided",
    "as_strided_",
    "as_strided_copy",
    "as_strided_scatter",
    "as_tensor",
    "asarray",
    "asin",
    "asin_",
    "asinh",
    "asinh_",
    "atan",
    "atan2",
    "atan2_",
    "atan_",
    "atanh",
    "atanh_",
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "baddbmm",
    "baddbmm_",
    "bartlett_window",
    "bernoulli",
    "bernoulli_",
    "bilinear",
    "bincount",
    "binomial",
    "bitwise_and",
    "bitwise_and_",
    "bitwise_left_shift",
    "bitwise_left_shift_",
    "bitwise_not",
    "bitwise_not_",
    "bitwise_or",
    "bitwise_or_",
    "bitwise_right_shift",
    "bitwise_right_shift_",
    "bitwise_xor",
    "bitwise_xor_",
    "blackman_window",
    "block_diag",
    "bmm",
    "broadcast_shapes",
    "broadcast_tensors",
    "broadcast_to",
    "bucketize",
    "can_cast",
    "cartesian_prod",
    "cat",
    "cauchy_",
    "ccol_indices_copy",
    "cdist",
    "ceil",
    "ceil_",
    "celu",
    "celu_",
    "chain_matmul",
    "cholesky",
    "cholesky_inverse",
    "cholesky_solve",
    "chunk",
    "clamp",
    "clamp_",
    "clamp_max",
    "clamp_max_",
    "clamp_min",
    "clamp_min_",
    "clip",
    "clip_",
    "clone",
    "col_indices_copy",
    "column_stack",
    "combinations",
    "compiled_with_cxx11_abi",
    "complex",
    "concat",
    "concatenate",
    "conj",
    "conj_physical",
    "conj_physical_",
    "constant_pad_nd",
    "copy_",
    "copysign",
    "copysign_",
    "corrcoef",
    "cos",
    "cos_",
    "cosh",
    "cosh_",
    "count_nonzero",
    "cov",
    "cross",
    "crow_indices_copy",
    "cummax",
    "cummin",
    "cumprod",
    "cumprod_",
    "cumsum",
    "cumsum_",
    "cumulative_trapezoid",
    "deg2rad",
    "deg2rad_",
    "det",
    "detach",
    "detach_",
    "detach_copy",
    "diag",
    "diag_embed",
    "diagflat",
    "diagonal",
    "diagonal_copy",
    "diagonal_scatter",
    "diff",
    "digamma",
    "digamma_",
    "dist",
    "div",
    "div_",
    "divide",
    "divide_",
    "dot",
    "dsmm",
    "dsplit",
    "dstack",
    "eig",
    "einsum",
    "empty",
    "empty_like",
    "empty_permuted",
    "empty_strided",
    "eq",
    "eq_",
    "equal",
    "erf",
    "erf_",
    "erfc",
    "erfc_",
    "erfinv",
    "erfinv_",
    "exp",
    "exp2",
    "exp2_",
    "exp_",
    "expand",
    "expand_copy",
    "expm1",
    "expm1_",
    "exponential_",
    "eye",
    "fill",
    "fill_",
    "fill_diagonal_",
    "fix",
    "fix_",
    "flatten",
    "flip",
    "fliplr",
    "flipud",
    "float_power",
    "float_power_",
    "floor",
    "floor_",
    "floor_divide",
    "floor_divide_",
    "fmax",
    "fmin",
    "fmod",
    "fmod_",
    "frac",
    "frac_",
    "frexp",
    "frobenius_norm",
    "from_dlpack",
    "from_file",
    "from_numpy",
    "frombuffer",
    "full",
    "full_like",
    "gather",
    "gcd",
    "gcd_",
    "ge",
    "ge_",
    "geometric_",
    "geqrf",
    "ger",
    "get_deterministic_debug_mode",
    "get_device",
    "get_device_module",
    "get_float32_matmul_precision",
    "get_num_interop_threads",
    "get_rng_state",
    "gradient",
    "greater",
    "greater_",
    "greater_equal",
    "greater_equal_",
    "gt",
    "gt_",
    "hamming_window",
    "hann_window",
    "hardshrink",
    "hash_tensor",
    "heaviside",
    "heaviside_",
    "histc",
    "histogram",
    "histogramdd",
    "hsmm",
    "hsplit",
    "hspmm",
    "hstack",
    "hypot",
    "hypot_",
    "i0",
    "i0_",
    "igamma",
    "igamma_",
    "igammac",
    "igammac_",
    "imag",
    "index_add",
    "index_add_",
    "index_copy",
    "index_copy_",
    "index_fill",
    "index_fill_",
    "index_put",
    "index_put_",
    "index_reduce",
    "index_reduce_",
    "index_select",
    "indices_copy",
    "init_num_threads",
    "initial_seed",
    "inner",
    "inverse",
    "is_anomaly_check_nan_enabled",
    "is_anomaly_enabled",
    "is_complex",
    "is_conj",
    "is_deterministic_algorithms_warn_only_enabled",
    "is_floating_point",
    "is_inference",
    "is_neg",
    "is_nonzero",
    "is_same_size",
    "is_signed",
    "is_storage",
    "is_tensor",
    "is_warn_always_enabled",
    "isclose",
    "isfinite",
    "isin",
    "isinf",
    "isnan",
    "isneginf",
    "isposinf",
    "isreal",
    "istft",
    "kaiser_window",
    "kron",
    "kthvalue",
    "lcm",
    "lcm_",
    "ldexp",
    "ldexp_",
    "le",
    "le_",
    "lerp",
    "lerp_",
    "less",
    "less_",
    "less_equal",
    "less_equal_",
    "lgamma",
    "lgamma_",
    "linspace",
    "lobpcg",
    "log",
    "log10",
    "log10_",
    "log1p",
    "log1p_",
    "log2",
    "log2_",
    "log_",
    "log_normal_",
    "log_softmax",
    "logaddexp",
    "logaddexp2",
    "logcumsumexp",
    "logdet",
    "logical_and",
    "logical_and_",
    "logical_not",
    "logical_not_",
    "logical_or",
    "logical_or_",
    "logical_xor",
    "logical_xor_",
    "logit",
    "logit_",
    "logspace",
    "logsumexp",
    "lstsq",
    "lt",
    "lt_",
    "lu",
    "lu_solve",
    "lu_unpack",
    "manual_seed",
    "map2_",
    "map_",
    "masked_fill",
    "masked_fill_",
    "masked_scatter",
    "masked_scatter_",
    "masked_select",
    "matmul",
    "matrix_exp",
    "matrix_power",
    "matrix_rank",
    "max",
    "maximum",
    "mean",
    "median",
    "meshgrid",
    "min",
    "minimum",
    "mm",
    "mode",
    "moveaxis",
    "movedim",
    "msort",
    "mul",
    "mul_",
    "multinomial",
    "multiply",
    "multiply_",
    "mv",
    "mvlgamma",
    "mvlgamma_",
    "nan_to_num",
    "nan_to_num_",
    "nanmean",
    "nanmedian",
    "nanquantile",
    "nansum",
    "narrow",
    "narrow_copy",
    "native_norm",
    "ne",
    "ne_",
    "neg",
    "neg_",
    "negative",
    "negative_",
    "nextafter",
    "nextafter_",
    "nll_loss",
    "nonzero",
    "nonzero_static",
    "norm",
    "norm_except_dim",
    "normal",
    "normal_",
    "not_equal",
    "not_equal_",
    "nuclear_norm",
    "numel",
    "ones",
    "ones_like",
    "orgqr",
    "ormqr",
    "outer",
    "pca_lowrank",
    "pdist",
    "permute",
    "permute_copy",
    "pinverse",
    "poisson",
    "polar",
    "polygamma",
    "polygamma_",
    "positive",
    "pow",
    "pow_",
    "prelu",
    "prod",
    "promote_types",
    "put",
    "put_",
    "qr",
    "quantile",
    "rad2deg",
    "rad2deg_",
    "rand",
    "rand_like",
    "randint",
    "randint_like",
    "randn",
    "randn_like",
    "random_",
    "randperm",
    "range",
    "ravel",
    "real",
    "reciprocal",
    "reciprocal_",
    "relu",
    "relu_",
    "remainder",
    "remainder_",
    "renorm",
    "renorm_",
    "repeat_interleave",
    "requires_grad_",
    "reshape",
    "resize_",
    "resize_as_",
    "resize_as_sparse_",
    "resolve_conj",
    "resolve_neg",
    "result_type",
    "roll",
    "rot90",
    "round",
    "round_",
    "row_indices_copy",
    "row_stack",
    "rsqrt",
    "rsqrt_",
    "rsub",
    "saddmm",
    "scalar_tensor",
    "scatter",
    "scatter_",
    "scatter_add",
    "scatter_add_",
    "scatter_reduce",
    "scatter_reduce_",
    "searchsorted",
    "seed",
    "segment_reduce",
    "select",
    "select_copy",
    "select_scatter",
    "selu",
    "selu_",
    "set_",
    "set_anomaly_enabled",
    "set_default_tensor_type",
    "set_deterministic_debug_mode",
    "set_float32_matmul_precision",
    "set_flush_denormal",
    "set_num_interop_threads",
    "set_printoptions",
    "set_rng_state",
    "set_warn_always",
    "sgn",
    "sgn_",
    "share_memory_",
    "show_config",
    "sigmoid",
    "sigmoid_",
    "sign",
    "sign_",
    "signbit",
    "sin",
    "sin_",
    "sinc",
    "sinc_",
    "sinh",
    "sinh_",
    "slice",
    "slice_copy",
    "slice_inverse",
    "slice_scatter",
    "slogdet",
    "smm",
    "softmax",
    "solve",
    "sort",
    "sparse_resize_",
    "sparse_resize_and_clear_",
    "split",
    "split_copy",
    "split_with_sizes",
    "split_with_sizes_copy",
    "spmm",
    "sqrt",
    "sqrt_",
    "square",
    "square_",
    "squeeze",
    "squeeze_",
    "squeeze_copy",
    "sspaddmm",
    "stack",
    "std",
    "std_mean",
    "stft",
    "sub",
    "sub_",
    "subtract",
    "subtract_",
    "sum",
    "svd",
    "svd_lowrank",
    "swapaxes",
    "swapaxes_",
    "swapdims",
    "swapdims_",
    "symeig",
    "t",
    "t_",
    "t_copy",
    "take",
    "take_along_dim",
    "tan",
    "tan_",
    "tanh",
    "tanh_",
    "tensor",
    "tensor_of_default_type",
    "tensor_split",
    "tensordot",
    "thread_safe_generator",
    "threshold",
    "threshold_",
    "tile",
    "to_dlpack",
    "topk",
    "trace",
    "transpose",
    "transpose_",
    "transpose_copy",
    "trapezoid",
    "trapz",
    "triangular_solve",
    "tril",
    "tril_",
    "tril_indices",
    "triu",
    "triu_",
    "triu_indices",
    "true_divide",
    "true_divide_",
    "trunc",
    "trunc_",
    "typename",
    "unbind",
    "unbind_copy",
    "unflatten",
    "unfold",
    "unfold_copy",
    "uniform_",
    "unique",
    "unique_consecutive",
    "unravel_index",
    "unsafe_chunk",
    "unsafe_split",
    "unsafe_split_with_sizes",
    "unsqueeze",
    "unsqueeze_",
    "unsqueeze_copy",
    "use_deterministic_algorithms",
    "values_copy",
    "vander",
    "var",
    "var_mean",
    "vdot",
    "view_as_complex",
    "view_as_complex_copy",
    "view_as_real",
    "view_as_real_copy",
    "view_copy",
    "vsplit",
    "vstack",
    "where",
    "xlogy",
    "xlogy_",
    "zero_",
    "zeros",
    "zeros_like",
]
