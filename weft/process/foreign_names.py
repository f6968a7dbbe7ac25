"""Names and keywords of PyTorch, Keras, JAX and NumPy with weft's spelling.

One table per owner: the modules of ``wf``, arrays, modules of ``wf.nn`` and optimizers; and the keywords of functions.
``name_errors`` and ``keyword_checks`` word the errors.
"""

from __future__ import annotations

_LOOP = "wf.value_and_grad(loss)(model, ...) and optimizer.update(model, gradients); arrays keep no gradients"
_SEEDED = "wf.random.seed(0)"
_DEVICE = 'wf.set_device("gpu"); arrays move to the program that reads them'
_FIT = "wf.train.fit(model, x, y, optimizer=..., loss=..., metrics=...)"
_EVALUATE = "wf.train.accuracy(model, x, y)"
_PREDICT = "wf.train.predict(model, x)"
_LAUNCH = "`weft launch -n 4 script.py` starts the ranks; wf.dist.rank() and wf.dist.size() say which they are"
_SUM = "wf.dist.all_sum(x)"
_DATA_PARALLEL = "wf.dist.all_sum of the gradients / wf.dist.size(), before optimizer.update"
_BUFFER = "buffers = (\"name\",) in the class, and self.name = array"
_LAYERS = {
    f"{there}{n}D": f"wf.nn.{here}{n}d" for there, here in (("Conv", "Conv"), ("MaxPool", "MaxPool"), ("AvgPool",
    "AvgPool"),
    ("MaxPooling", "MaxPool"), ("AveragePooling", "AvgPool"), ("GlobalMaxPooling", "GlobalMaxPool"),
    ("GlobalAveragePooling", "GlobalAvgPool")) for n in (1, 2, 3)
}
_LOSSES = {
    "CrossEntropyLoss": "cross_entropy", "NLLLoss": "cross_entropy", "MSELoss": "mse", "L1Loss": "l1",
    "HuberLoss": "huber",
    "SmoothL1Loss": "huber", "BCEWithLogitsLoss": "binary_cross_entropy_with_logits", "KLDivLoss": "kl_div",
    "BCELoss": "binary_cross_entropy_with_logits", "SparseCategoricalCrossentropy": "cross_entropy",
    "CategoricalCrossentropy": "cross_entropy", "BinaryCrossentropy": "binary_cross_entropy_with_logits",
    "MeanSquaredError": "mse", "mean_squared_error": "mse", "mse_loss": "mse", "l1_loss": "l1",
    "nll_loss": "cross_entropy",
    "softmax_cross_entropy": "cross_entropy", "binary_cross_entropy": "binary_cross_entropy_with_logits",
    "sparse_categorical_crossentropy": "cross_entropy", "categorical_crossentropy": "cross_entropy",
    "softmax_cross_entropy_with_integer_labels": "cross_entropy", "mean_absolute_error": "l1", "huber_loss": "huber",
}
_LOSS_NAMES = {there: f"wf.losses.{here}, a function of (predictions, targets)" for there, here in _LOSSES.items()}

MODULES: dict[str, dict[str, str]] = {
    "weft": {
        "cat": "wf.concat(arrays, axis=0)", "tensor": "wf.array", "Tensor": "wf.Array; wf.array makes one",
        "from_numpy": "wf.asarray",
        "as_tensor": "wf.asarray", "no_grad": "nothing: only functions given to wf.grad are differentiated",
        "inference_mode": "nothing: only functions given to wf.grad are differentiated", "enable_grad": "wf.grad",
        "manual_seed": _SEEDED, "PRNGKey": "wf.random.key(0)", "compile": "wf.jit", "autograd": "wf.grad",
        "jacobian": "wf.jacrev",
        "lax": "wf itself: wf.scan, wf.cond, wf.while_loop, wf.fori_loop, wf.switch",
        "numpy": "wf itself: wf.sum, wf.exp",
        "jnp": "wf itself: wf.sum, wf.exp", "device_put": 'x.to("gpu")', "device_get": "x.numpy()",
        "block_until_ready": "wf.eval(x)",
        "checkpoint": "wf.remat", "custom_gradient": "wf.custom_vjp", "make_jaxpr": "wf.explain(f, x)",
        "pmap": "wf.vmap on one device, wf.dist on several processes",
        "shard_map": "wf.vmap on one device, wf.dist on several processes", "distributed": "wf.dist",
        "multiprocessing": _LAUNCH,
        "cuda": 'wf.set_device("gpu"); `weft info` lists the devices',
        "tree_util": "wf.tree", "config": "wf.set_default_dtype, wf.set_matmul_precision, wf.set_device",
        "Module": "wf.nn.Module",
        "GradientTape": "wf.grad", "function": "wf.jit", "Variable": "wf.array: arrays can be written",
        "constant": "wf.array",
        "reduce_sum": "wf.sum", "reduce_mean": "wf.mean", "reduce_max": "wf.max", "cast": "wf.astype",
        "float": "wf.float32",
        "keras": "wf.nn and wf.train", "utils": "wf.data for loaders, wf.nn for modules", "relu": "wf.nn.relu",
        "softmax": "wf.nn.softmax", "sigmoid": "wf.nn.sigmoid", "mm": "wf.matmul", "bmm": "wf.matmul",
        "mul": "wf.multiply",
        "div": "wf.divide", "sub": "wf.subtract", "neg": "wf.negative", "clamp": "wf.clip", "rsqrt": "1 / wf.sqrt(x)",
        "unsqueeze": "wf.expand_dims(x, axis)", "permute": "wf.permute_dims(x, axes)",
        "masked_fill": "wf.where(mask, value, x)",
        "bernoulli": "wf.random.bernoulli", "multinomial": "wf.random.choice", "numel": "x.size",
        "is_tensor": "isinstance(x, wf.Array)",
        "set_grad_enabled": "nothing: only functions given to wf.grad are differentiated",
        "logsumexp": "wf.logaddexp.reduce(x, axis)",
        "save_checkpoint": "wf.io.save", "fit": _FIT, "Sequential": "wf.nn.Sequential",
        **{name: f"wf.random.{name}" for name in ("randn", "rand", "randint", "normal", "uniform", "shuffle")},
        "randperm": "wf.random.permutation(n)", "key": "wf.random.key(0)",
    },
    "weft.nn": {
        **_LAYERS, **_LOSS_NAMES,
        "Dense": "wf.nn.Linear(None, 10): the width of the input is taken from the first batch",
        "functional": "wf.nn and wf.losses",
        "Parameter": "self.name = array: float arrays are parameters", "LazyLinear": "wf.nn.Linear(None, 10)",
        "ParameterList": "a list of arrays", "ModuleList": "a list of modules", "ModuleDict": "a dict of modules",
        "MultiheadAttention": "wf.nn.MultiHeadAttention", "BatchNormalization": "wf.nn.BatchNorm1d, wf.nn.BatchNorm2d",
        "BatchNorm": "wf.nn.BatchNorm1d, wf.nn.BatchNorm2d", "LayerNormalization": "wf.nn.LayerNorm",
        "Conv": "wf.nn.Conv2d",
        "Activation": "wf.nn.ReLU(), or any function",
        "InputLayer": "nothing: a width of None is taken from the first batch",
        "DataParallel": _DATA_PARALLEL, "parallel": _DATA_PARALLEL,
        "Unflatten": "wf.nn.Reshape", "compact": "layers in __init__", "MLP": "wf.nn.Sequential",
        "utils": "wf.optim.clip_by_norm",
        "parameter": "self.name = array: float arrays are parameters", "layers": "wf.nn",
    },
    "weft.nn.init": {
        f"{name}_": f"layer.weight = wf.nn.init.{name}(layer.weight)" for name in (
            "xavier_uniform", "xavier_normal", "kaiming_uniform", "kaiming_normal", "uniform", "normal", "zeros", "ones",
            "orthogonal",
        )
    },
    "weft.losses": {there: f"wf.losses.{here}" for there, here in _LOSSES.items()},
    "weft.optim": {
        "lr_scheduler": "schedule=wf.optim.schedules.cosine(steps)",
        "apply_updates": "optimizer.update(model, gradients)",
        "chain": "options of one optimizer: clip_norm=, weight_decay=, schedule=", "rmsprop": "wf.optim.RMSprop",
        "clip_grad_norm_": "clip_norm= of the optimizer, or wf.optim.clip_by_norm", "Adagrad": "wf.optim.AdaGrad",
        "Adadelta": "wf.optim.AdaDelta", "Adamax": "wf.optim.AdaMax", "NAdam": "wf.optim.Nadam",
        "SparseAdam": "wf.optim.Adam",
    },
    "weft.data": {
        "DataLoader": "wf.data.Loader((x, y), batch_size)", "TensorDataset": "wf.data.Loader((x, y), batch_size)",
        "Dataset": "any iterable of batches (x, y), or a function that returns one", "mnist": "wf.data.load_mnist()",
    },
    "weft.random": {
        "PRNGKey": "wf.random.key(0)", "manual_seed": _SEEDED, "set_seed": _SEEDED, "categorical": "wf.random.choice",
        "truncated_normal": "wf.clip(wf.random.normal(size=...), -2, 2)",
    },
    "weft.train": {
        "ModelCheckpoint": "checkpoint= of wf.train.fit, or wf.train.BestWeights(path=...)", "Trainer": "wf.train.fit",
        "evaluate": _EVALUATE, "train": _FIT, "CSVLogger": "wf.train.CSVLog",
    },
    "weft.dist": {
        "init_process_group": _LAUNCH, "initialize": _LAUNCH, "spawn": _LAUNCH, "run": _LAUNCH,
        "is_initialized": "wf.dist.size() > 1", "is_available": "wf.dist.size() > 1",
        "destroy_process_group": "nothing: the job ends with its scripts", "finalize": "nothing: the job ends with its scripts",
        **dict.fromkeys(("get_rank", "Get_rank", "process_index", "local_rank", "axis_index"), "wf.dist.rank()"),
        **dict.fromkeys(("get_world_size", "world_size", "Get_size", "process_count", "axis_size"), "wf.dist.size()"),
        "COMM_WORLD": "wf.dist itself: wf.dist.rank(), wf.dist.all_sum(x)", "MPI": "wf.dist itself, on MPI",
        **dict.fromkeys(("all_reduce", "allreduce", "Allreduce", "psum", "reduce", "Reduce"), _SUM),
        **dict.fromkeys(("pmean", "all_mean"), "wf.dist.all_sum(x) / wf.dist.size()"),
        **dict.fromkeys(("all_max", "pmax"), "wf.dist.all_gather(x).max(axis=0)"),
        **dict.fromkeys(("all_min", "pmin"), "wf.dist.all_gather(x).min(axis=0)"),
        "ReduceOp": f"{_SUM} for sums, wf.dist.all_gather(x).max(axis=0) and the like for others",
        **dict.fromkeys(
            ("allgather", "Allgather", "all_gather_into_tensor", "gather", "Gather"), "wf.dist.all_gather(x)",
        ),
        **dict.fromkeys(("bcast", "Bcast", "broadcast_object_list", "broadcast_one_to_all"), "wf.dist.broadcast(x, root=0)"),
        "scatter": "wf.dist.broadcast(x)[wf.dist.rank()]", "Scatter": "wf.dist.broadcast(x)[wf.dist.rank()]",
        **dict.fromkeys(("alltoall", "Alltoall", "all_to_all_single"), "wf.dist.all_to_all(x)"),
        **dict.fromkeys(("reduce_scatter_tensor", "psum_scatter", "Reduce_scatter"), "wf.dist.reduce_scatter(x)"),
        "isend": "wf.dist.send(x, to)", "Send": "wf.dist.send(x, to)",
        "irecv": "wf.dist.recv(like, source)", "Recv": "wf.dist.recv(like, source)",
        "Barrier": "wf.dist.barrier()", "new_group": "wf.dist.group(ranks)", "Split": "wf.dist.group(ranks)",
        "ProcessGroup": "wf.dist.Group", "DistributedDataParallel": _DATA_PARALLEL, "fully_shard": _DATA_PARALLEL,
    },
}
ARRAY = {
    "backward": _LOOP, "grad": "wf.grad(function)(x); arrays keep no gradients", "detach": "wf.stop_gradient(x)",
    "requires_grad": "wf.grad(function)(x): the arguments of a function are differentiated",
    "retain_grad": "wf.grad(function)(x)",
    "requires_grad_": "wf.grad(function)(x): the arguments of a function are differentiated", "zero_grad": _LOOP,
    "cuda": f"{_DEVICE}, or x.to(\"gpu\")", "cpu": "x.numpy(), or x.to(\"cpu\")", "clone": "x.copy()", "dim": "x.ndim",
    "numel": "x.size",
    "permute": "x.transpose(1, 0)", "unsqueeze": "x[None], or wf.expand_dims(x, axis)",
    "expand": "wf.broadcast_to(x, shape)",
    "contiguous": "x: arrays are contiguous for every reader", "type": "x.astype(dtype)", "float": "x.astype(wf.float32)",
    "double": "x.astype(wf.float64)", "half": "x.astype(wf.float16)", "long": "x.astype(wf.int64)",
    "int": "x.astype(wf.int32)",
    "bool": "x.astype(wf.bool)", "t": "x.T", "mm": "x @ y", "bmm": "x @ y", "matmul": "x @ y",
    "norm": "wf.linalg.norm(x)",
    "topk": "wf.sort(x)[..., -k:], or wf.argsort", "softmax": "wf.nn.softmax(x)", "sigmoid": "wf.nn.sigmoid(x)",
    "relu": "wf.nn.relu(x)", "masked_fill": "wf.where(mask, value, x)", "gather": "wf.take_along_axis(x, index, axis)",
    "scatter": "wf.scatter_set(x, i, v)", "scatter_add": "wf.scatter_add(x, i, v)", "clamp": "x.clip(low, high)",
    "at": "wf.scatter_set(x, i, v), wf.scatter_add(x, i, v), or in place x[i] = v", "block_until_ready": "wf.eval(x)",
    "assign": "x[...] = value", "is_cuda": "x.device", "unbind": "wf.unstack(x)", "split": "wf.split(x, n)",
    "chunk": "wf.split(x, n)", "tile": "wf.tile(x, n)", "flip": "wf.flip(x, axis)", "eq": "x == y", "add": "x + y",
    "sub": "x - y",
    "mul": "x * y", "div": "x / y", "pow": "x ** y", **{name: f"wf.{name}(x)" for name in ("exp", "log", "sqrt", "sin",
    "cos", "tanh", "abs")},
    **{name: spelling for name, spelling in (
        ("add_", "x += y"), ("sub_", "x -= y"), ("mul_", "x *= y"), ("div_", "x /= y"), ("zero_", "x[...] = 0"),
        ("fill_", "x[...] = v"),
        ("copy_", "x[...] = y"), ("clamp_", "x[...] = x.clip(low, high)"), ("normal_", "x[...] = wf.random.normal(size=x.shape)"),
        ("uniform_", "x[...] = wf.random.uniform(size=x.shape)"),
    )},
}
MODULE = {
    "fit": _FIT, "compile": f"{_FIT}; wf.jit(model) for a compiled call",
    "predict": _PREDICT, "evaluate": _EVALUATE, "fit_generator": _FIT,
    "train_on_batch": "wf.train.training_step(model, loss, optimizer)(x, y, lr)",
    "state_dict": "model.arrays(), or model.save(path)",
    "load_state_dict": "model.load(path)", "save_weights": "model.save(path)", "load_weights": "model.load(path)",
    "to": f"{_DEVICE}; model.astype(dtype) for dtypes", "cuda": _DEVICE, "cpu": 'wf.set_device("cpu")',
    "half": 'model.astype("float16")',
    "float": 'model.astype("float32")', "double": 'model.astype("float64")', "bfloat16": 'model.astype("bfloat16")',
    "zero_grad": f"nothing: {_LOOP}",
    "backward": _LOOP, "register_buffer": _BUFFER, "register_parameter": "self.name = array",
    "add_module": "self.name = module", "register_module": "self.name = module",
    "requires_grad_": "model.freeze(), model.unfreeze()",
    "apply": "model(x), or a loop over model.modules()", "named_modules": "model.modules()",
    "named_children": "model.children()",
    "init": "model(x): parameters are made in __init__, or by the first call", "get_weights": "model.arrays()",
    "set_weights": "model.load(path), or model[0].weight[...] = array", "trainable_variables": "model.parameters()",
    "trainable_weights": "model.parameters()", "weights": "model.arrays()",
    "count_params": "model.summary(shape).total.parameters",
    "get_parameter": "model.parameters()[name]", "get_submodule": "dict(model.modules())[name]",
    "params": "model.parameters()",
    "call": "forward(self, x)", "build": "layers in __init__; a width of None is taken from the first batch",
}
FLAGS = {name: "model.freeze(), or groups={pattern: {\"lr\": 0}} of the optimizer" for name in ("trainable", "requires_grad")}
SEQUENTIAL = {"add": "model.append(layer)", "get_layer": "model[name]", "pop": "model.remove(-1)",
              "extend": "model.append(layer)"}
OPTIMIZER = {
    "step": "optimizer.update(model, gradients), gradients from wf.grad",
    "zero_grad": "nothing: wf.grad returns new gradients each time",
    "apply_gradients": "optimizer.update(model, gradients)", "apply": "optimizer.update(model, gradients)",
    "minimize": "wf.value_and_grad(loss)(model) and optimizer.update(model, gradients)", "learning_rate": "optimizer.lr",
    "param_groups": "optimizer.groups", "state_dict": "optimizer.arrays(), or optimizer.save(path)",
    "load_state_dict": "optimizer.load(path)", "iterations": "optimizer.step_count", "get_config": "repr(optimizer)",
}
KEYWORDS: dict[str, tuple[str, ...]] = {  # keyword elsewhere -> weft's, the first that the function has
    "dim": ("axis", "axes"), "dims": ("axis", "axes"), "dim0": ("axis1",), "dim1": ("axis2",), "axis": ("dim",),
    "axes": ("axis",),
    "keepdim": ("keepdims",), "keep_dims": ("keepdims",), "input": ("x", "a", "prediction"), "inputs": ("x",),
    "labels": ("y", "target"),
    "learning_rate": ("lr",), "rate": ("p",), "epsilon": ("eps",), "beta_1": ("betas",), "beta_2": ("betas",),
    "beta1": ("betas",),
    "beta2": ("betas",), "b1": ("betas",), "b2": ("betas",), "momentum": ("betas",), "decay": ("weight_decay",),
    "clipnorm": ("clip_norm",),
    "clipvalue": ("clip_value",), "max_norm": ("norm",), "lr_scheduler": ("schedule",), "scheduler": ("schedule",),
    "validation_split": ("validation",), "validation_data": ("validation",), "val_data": ("validation",),
    "verbose": ("show",),
    "progress": ("show",), "steps": ("steps_per_epoch", "max_steps"), "accumulation_steps": ("accumulate",),
    "n_epochs": ("epochs",),
    "num_epochs": ("epochs",), "nb_epoch": ("epochs",), "criterion": ("loss",), "loss_fn": ("loss",),
    "random_state": ("seed",),
    "use_bias": ("bias",), "units": ("out_features", "hidden_size"), "filters": ("out_channels",),
    "features": ("out_features", "out_channels"),
    "strides": ("stride",), "pool_size": ("kernel_size", "size"), "num_points": ("num",), "minval": ("low",),
    "maxval": ("high",),
    "mean": ("loc",), "std": ("scale",), "shape": ("size",), "in_dims": ("in_axes",), "out_dims": ("out_axes",),
    "argnum": ("argnums",),
    "dst": ("to",), "dest": ("to",), "src": ("source", "root"), "tensor": ("x", "like"),
    "embed_dim": ("features",), "num_heads": ("heads",), "dropout_rate": ("p", "dropout"),
}
REFUSED = {  # keywords that no function of weft has, and what to do instead
    "requires_grad": "wf.grad(function)(x) differentiates a function's arguments",
    "params": "optimizer.update takes the model",
    "inplace": "leave it out, memory is reused without it",
    "input_shape": "a width of None is taken from the first batch",
    "input_dim": "the width is the first argument; None takes it from the first batch",
    "batch_first": "the batch is always the first axis",
    "activation": "add a layer such as wf.nn.ReLU(), which shares the kernel",
    "async_op": "leave it out, a collective runs where its result is read",
    "op": "sums only: wf.dist.all_gather(x).max(axis=0) for others",
    "create_graph": "wf.grad(wf.grad(function))",
    "num_workers": "leave it out",
    "pin_memory": "leave it out",
    "non_blocking": "leave it out", "map_location": "leave it out, arrays move to the program that reads them",
    "kernel_initializer": "layer.weight = wf.nn.init.glorot_uniform(layer.weight)",
}
