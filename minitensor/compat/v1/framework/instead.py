"""What to use in place of TensorFlow's names that aren't here: the texts of the AttributeErrors."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable

__all__ = ["advice", "missing"]

_PACKAGE = "minitensor.compat.v1"

_FED = "feed_dict, with batches from minitensor.utils.data.DataLoader"
_LOOP = "a loop over tf.Session.run; tf.train.Saver keeps variables, tf.summary.FileWriter what is logged"
_CELLS = "tf.while_loop, or tf.matmul and tf.tanh for each time step of tf.unstack; eagerly minitensor.nn.LSTM"
_RANKS = "minitensor.distributed, in eager code"
_SCAN = "tf.while_loop, or a loop in Python over tf.unstack with tf.stack of its results"
_TEXT = "Python's own strings: tensors hold numbers. What is fed is minitensor.tensor or an array of NumPy"
_IMAGES = "an array of NumPy, changed before it is fed; layers' functions are in tf.nn"
_CHECKS = "Python's assert on what tf.Session.run gives, or on a static shape by tf.Tensor.get_shape"
_SAVED = "tf.train.Saver; of eager modules minitensor.export and minitensor.save"
_SPARSE = "tf.gather with indices, or minitensor.sparse_coo_tensor in eager code"
_SCATTER = "tf.one_hot with tf.matmul, or minitensor.Tensor.index_add_ in eager code"
_QUANTIZED = "tf.round and tf.clip_by_value of what is scaled; minitensor.autocast has 16-bit floats in eager code"
_OWN = "minitensor.extend makes ops of your own for eager code"
_EAGER = "write it with minitensor's own functions, which run at once: minitensor.nn.functional (docs/graphs.md)"

# The first that fits a name, without `tf.`, says what to use. Names in it are tested to be there.
_RULES = [
    (r"layers\.\w+", "tf.layers.dense, tf.layers.conv2d, or tf.get_variable with ops; eagerly minitensor.nn"),
    (r"contrib\.(rnn|cudnn_rnn|legacy_seq2seq|seq2seq)", _CELLS),
    (r"contrib\.(layers|slim)", "tf.layers.dense, tf.layers.conv2d and their kin; eagerly minitensor.nn"),
    (r"contrib\.(learn|training|tpu|estimator)", _LOOP),
    (r"contrib\.data", _FED),
    (r"contrib\.distribute", _RANKS),
    (r"contrib\.eager", "minitensor itself, which is eager: minitensor.Tensor"),
    (r"contrib\.\w+", "tf.contrib.compiler.jit is all there is; minitensor.nn has layers, minitensor.optim optimizers"),
    (r"keras", "minitensor.nn has layers, minitensor.optim optimizers; Keras itself runs on minitensor.as_torch"),
    (r"estimator|experimental|feature_column", _LOOP),
    (r"nn\.(rnn_cell|\w*rnn)", _CELLS),
    (r"data|FixedLen\w*|VarLenFeature|SparseFeature|io", _FED),
    (r"\w*(Queue|QueueBase|Reader|ReaderBase|queue_runners?)|queue", _FED),
    (r"train\.(\w*batch(_join)?|\w*_producer|limit_epochs|queue_runner|\w*QueueRunner|\w*queue_runners?)",
     _FED),
    (r"train\.(Coordinator|LooperThread|input_producer|match_filenames_once|BytesList|Example|Feature\w*|FloatList|"
     r"Int64List|SequenceExample)", _FED),
    (r"(read_file|write_file|matching_files|parse_\w+|decode_\w+|encode_\w+|serialize_\w+|deserialize_\w+|"
     r"TFRecord\w*|tf_record_iterator|match_filenames_once)", _FED),
    (r"python_io|audio", _FED),
    (r"gfile|resource_loader", "Python's own files; tf.train.Saver has those of variables"),
    (r"train\.(\w*Hook|\w*Session|\w*SessionCreator|SessionManager|SessionRun\w+|Supervisor|Scaffold|SecondOrStepTimer|"
     r"basic_train_loop|NanLossDuringTrainingError|summary_iterator|CheckpointSaverListener|VocabInfo|warm_start|"
     r"assert_global_step|experimental)", _LOOP),
    (r"train\.(Checkpoint\w*|NewCheckpointReader|\w*checkpoint\w*|SaverDef|list_variables|load_variable|\w*meta_graph|"
     r"write_graph)", "tf.train.Saver and tf.train.latest_checkpoint"),
    (r"train\.(Server\w*|Cluster\w*|JobDef|SyncReplicasOptimizer|replica_device_setter)|distribute|"
     r"tpu|DeviceSpec", _RANKS),
    (r"train\.(ExponentialMovingAverage)", "tf.assign of a variable to a weighted sum, under tf.control_dependencies"),
    (r"train\.\w*(Optimizer|sdca\w*)|train\.(do_quantize\w+|sdca\w*)",
     "tf.train.AdamOptimizer, or a subclass of tf.train.Optimizer; eagerly minitensor.optim"),
    (r"train\.\w*decay\w*", "tf.train.exponential_decay, tf.train.cosine_decay or tf.train.polynomial_decay"),
    (r"summary\.\w+", "tf.summary.scalar, tf.summary.histogram or tf.summary.image"),
    (r"losses\.\w+", "tf.losses.compute_weighted_loss with ops of your own"),
    (r"metrics", "tf.reduce_mean of tf.equal, fetched for each batch and averaged in Python"),
    (r"errors\.\w+", "tf.errors.OpError, of which all errors of runs here are"),
    (r"logging\.\w+|get_logger|LogMessage|Print|print|timestamp",
     "tf.logging.info of what tf.Session.run gives"),
    (r"flags\.\w+|app\.\w+",
     "tf.flags.DEFINE_string and its kin for integers, floats and booleans; or Python's argparse"),
    (r"(assert_\w+|Assert|is_\w+|check_numerics|\w*check_\w+|verify_\w+|ensure_shape|"
     r"report_uninitialized_variables|is_variable_initialized)|debugging|add_check_numerics_ops", _CHECKS),
    (r"map_fn|scan|foldl|foldr|vectorized_map|TensorArray\w*|nondifferentiable_batch_function", _SCAN),
    (r"case|switch_case", "tf.cond, one in another"),
    (r"function|wrap_function|autograph|init_scope|\w*GradientTape|grad_pass_through|recompute_grad|"
     r"UnconnectedGradients|AggregationMethod|hessians|stop_recording",
     "tf.gradients in a graph; eagerly minitensor.function and minitensor.autograd.grad"),
    (r"custom_gradient|RegisterGradient|NoGradient|NotDifferentiable|no_gradient|register_\w+|\w*py_func\w*|"
     r"\w*py_function|\w*numpy_function|load_\w+|user_ops|raw_ops|sysconfig", _OWN),
    (r"(enable|disable)_\w+|\w+_enabled|executing_eagerly\w*",
     "minitensor itself, which is eager, by minitensor.tensor; tf.Graph and tf.Session are as in the first style"),
    (r"(\w+[._])?(string|regex|substr|unicode|as_string|as_text|reduce_join|edit_distance)\w*|strings?",
     _TEXT),
    (r"nn\.ctc\w*|nn\.collapse_repeated", "minitensor.nn.functional.ctc_loss in eager code"),
    (r"nn\.\w*(candidate_sampler|sampled\w+|nce_loss|compute_accidental_hits)\w*",
     "tf.nn.sparse_softmax_cross_entropy_with_logits over all classes"),
    (r"nn\.\w*pool\w*", "tf.nn.max_pool or tf.nn.avg_pool; eagerly minitensor.nn.functional.max_pool3d and its kin"),
    (r"nn\.\w*(conv|dilation2d|erosion2d|convolution)\w*|conv\w*|extract_\w+patches",
     "tf.nn.conv2d; eagerly minitensor.nn.functional.conv3d, conv_transpose2d and their kin"),
    (r"image", _IMAGES),
    (r"saved_model|lite|graph_util|import_graph_def|\w*(Graph|MetaGraph|Node)Def|\w*Proto|"
     r"TensorInfo|NameAttrList|AttrValue|make_(ndarray|template)|mlir|GRAPH_DEF\w+|"
     r"make_tensor_proto|profiler|HistogramProto|Event|SessionLog|Summary\w*|\w+_FLAG|\w*VERSION|MONOLITHIC_BUILD|"
     r"version|xla|compat", _SAVED),
    (r"sparse\w*|(nn\.)?\w*_?sparse(_\w+)?|Sparse\w*|IndexedSlices\w*|ragged\w*|Ragged\w*|"
     r"convert_to_tensor_or_\w+", _SPARSE),
    (r"(math\.)?(\w*segment_\w+|\w*scatter_\w+|dynamic_(stitch|partition)|bincount|invert_permutation)|"
     r"\w*ConditionalAccumulator\w*|batch_scatter_update|count_up_to|nn\.(safe_)?embedding_lookup\w*", _SCATTER),
    (r"(fake_quant\w*|quant\w*|dequantize)|quantization|(qu?int\d+|QUANTIZED_DTYPES)|"
     r"nn\.quantized\w+|mixed_precision", _QUANTIZED),
    (r"(u?int\d+|bfloat16|string|variant|resource|to_bfloat16)|dtypes",
     "tf.int32, tf.int64, tf.uint8, tf.float32 or tf.cast; eager code has minitensor.bfloat16, minitensor.uint16 and "
     "their kin"),
    (r"lookup|\w*tables?\w*|initializers\.tables_initializer", "a dict in Python, and numbers for a tf.placeholder"),
    (r"\w*_initializer|initializers\.\w+",
     "tf.random_normal_initializer, tf.glorot_uniform_initializer, or a function of a shape and a dtype"),
    (r"\w*partitioner|create_partitioned_variables|no_regularizer|\w*_variables|get_local_variable|\w*Variable\w*|"
     r"variable_\w+|colocate_with|container|CriticalSection|Module|op_scope|model_variables|tuple|\w*session\w*",
     "tf.get_variable in a tf.variable_scope"),
    (r"random\.\w+|distributions|random_\w+|multinomial|stateless_\w+",
     "tf.random_normal, tf.random_uniform or tf.truncated_normal; eagerly minitensor.distributions"),
    (r"\w*(TypeSpec|TensorSpec|OptionalSpec|type_spec_\w+|get_static_value|dimension_\w+|get_seed)|types|"
     r"\w*broadcast_(static|dynamic)_shape|\w*TensorShapeV1", "tf.placeholder, and tf.TensorShape of what is known"),
    (r"linalg", "minitensor.linalg, in eager code"),
    (r"bitwise|bitcast", "minitensor.bitwise_and and its kin, in eager code"),
    (r"sets|setdiff1d", "minitensor.unique and minitensor.isin, in eager code"),
    (r"manip", "tf.tile, tf.reverse, tf.concat and their kin"),
    (r"math\.(special|polyval|\w*bessel\w*)", "minitensor.special in eager code"),
    (r"clip_by_average_norm", "tf.clip_by_norm or tf.clip_by_global_norm"),
    (r"(math\.)?accumulate_n", "tf.add_n"),
    (r"batch_(gather|to_space\w*)", "tf.gather, tf.reshape and tf.transpose"),
    (r"histogram\w*", "minitensor.histc, in eager code"),
    (r"(identity_n|guarantee_const|shape_n)", "tf.identity or tf.shape of each"),
    (r"(spectral|signal|\w*fft\w*)", "minitensor.fft in eager code"),
    (r"test|nest|get_collection_ref|add_to_collections", "Python's own, and tf.get_collection"),
    (r"config", "tf.ConfigProto, in what a tf.Session is given"),
]  # fmt: skip
_COMPILED = [(re.compile(pattern), text) for pattern, text in _RULES]

# Where a function of the same name may be, after another name of PyTorch's for the same.
_PLACES = ("minitensor", "minitensor.linalg", "minitensor.special", "minitensor.nn.functional")
_OTHER_NAMES = {
    "arg_max": "argmax", "arg_min": "argmin", "betainc": "special.betainc", "cholesky_solve": "cholesky_solve",
    "complex": "complex", "confusion_matrix": "bincount", "count_nonzero": "count_nonzero", "crelu": "relu",
    "cumulative_logsumexp": "logcumsumexp", "depth_to_space": "pixel_shuffle", "diag_part": "diagonal",
    "divide_no_nan": "where", "div_no_nan": "where", "expand_as": "broadcast_to", "floor_div": "floor_divide",
    "gather_nd": "take", "histogram_fixed_width": "histc", "igamma": "special.gammainc",
    "igammac": "special.gammaincc", "lbeta": "lgamma", "lin_space": "linspace", "log_sigmoid": "logsigmoid",
    "lrn": "local_response_norm", "local_response_normalization": "local_response_norm", "matrix_band_part": "tril",
    "matrix_determinant": "linalg.det", "matrix_diag": "diag_embed", "matrix_diag_part": "diagonal",
    "matrix_inverse": "linalg.inv", "matrix_set_diag": "diagonal_scatter", "matrix_solve": "linalg.solve",
    "matrix_solve_ls": "linalg.lstsq", "matrix_transpose": "transpose",
    "matrix_triangular_solve": "linalg.solve_triangular", "ndtri": "special.ndtri", "norm": "linalg.norm",
    "reverse_v2": "flip", "rint": "round", "scalar_mul": "mul", "self_adjoint_eig": "linalg.eigh",
    "self_adjoint_eigvals": "linalg.eigvalsh", "sequence_mask": "arange", "setdiff1d": "isin",
    "silu": "silu", "space_to_batch": "pixel_unshuffle", "space_to_batch_nd": "pixel_unshuffle",
    "space_to_depth": "pixel_unshuffle", "swish": "silu", "truncatediv": "div", "truncatemod": "fmod",
    "reduce_std": "std", "reduce_variance": "var", "reduce_euclidean_norm": "linalg.vector_norm",
    "multiply_no_nan": "where", "reciprocal_no_nan": "where", "approx_max_k": "topk", "approx_min_k": "topk",
    "approx_top_k": "topk", "unique_with_counts": "unique",
    "where_v2": "where", "xdivy": "where", "zero_fraction": "count_nonzero",
}  # fmt: skip


def advice(path: str) -> str:
    """What to use in place of a name, which is without `tf.`: `train.Server`."""
    last = path.rpartition(".")[2]
    package = importlib.import_module(_PACKAGE)
    if "." in path and not path.startswith("contrib.") and last in package.__all__:
        return f"tf.{last}"
    for pattern, text in _COMPILED:
        if pattern.fullmatch(path):
            return text
    wanted = _OTHER_NAMES.get(last, last)
    for place in _PLACES:
        found: object = importlib.import_module(place)
        for part in wanted.split("."):
            found = getattr(found, part, None)
        if callable(found):
            return f"{place}.{wanted} in eager code, or a composition of ops here"
    return _EAGER


def missing(module: str) -> Callable[[str], object]:
    """The `__getattr__` of a module of this package: an AttributeError that says what to use."""
    inside = module.removeprefix(_PACKAGE).lstrip(".")

    def refuse(name: str) -> object:
        text = f"module '{module}' has no attribute '{name}'"
        if not name.startswith("_"):
            text += f": {advice(f'{inside}.{name}' if inside else name)}"
        raise AttributeError(text, name=name)

    return refuse
