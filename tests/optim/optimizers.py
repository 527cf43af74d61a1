"""Rows of the tests of optimizers: which, and with which options."""

ROWS = [
    ("Adadelta", {}),
    ("Adadelta", {"lr": 0.5, "rho": 0.8, "weight_decay": 0.1}),
    ("Adadelta", {"maximize": True, "eps": 1e-3}),
    ("Adafactor", {}),
    ("Adafactor", {"lr": 0.1, "weight_decay": 0.1, "d": 1.5}),
    ("Adafactor", {"beta2_decay": -0.5, "eps": (1e-4, 1e-2), "maximize": True}),
    ("Adagrad", {}),
    ("Adagrad", {"lr_decay": 0.1, "weight_decay": 0.1, "initial_accumulator_value": 0.5}),
    ("Adagrad", {"maximize": True, "eps": 1e-3}),
    ("Adam", {}),
    ("Adam", {"weight_decay": 0.1, "amsgrad": True}),
    ("Adam", {"maximize": True, "betas": (0.5, 0.75), "eps": 1e-3, "lr": 0.1}),
    ("Adam", {"decoupled_weight_decay": True, "weight_decay": 0.2, "betas": (0.0, 0.9)}),
    ("AdamW", {}),
    ("AdamW", {"lr": 0.1, "amsgrad": True, "maximize": True}),
    ("Adamax", {}),
    ("Adamax", {"weight_decay": 0.1, "betas": (0.5, 0.75)}),
    ("Adamax", {"maximize": True, "eps": 1e-3}),
    ("ASGD", {}),
    ("ASGD", {"lr": 0.1, "lambd": 0.1, "t0": 3.0, "weight_decay": 0.1}),
    ("ASGD", {"alpha": 0.5, "t0": 0.0, "maximize": True}),
    ("NAdam", {}),
    ("NAdam", {"weight_decay": 0.1, "momentum_decay": 0.1}),
    ("NAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True, "maximize": True}),
    ("RAdam", {}),
    ("RAdam", {"weight_decay": 0.1, "betas": (0.5, 0.9)}),
    ("RAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True, "maximize": True, "lr": 0.1}),
    ("RMSprop", {}),
    ("RMSprop", {"momentum": 0.9, "weight_decay": 0.1}),
    ("RMSprop", {"centered": True, "alpha": 0.8, "maximize": True}),
    ("RMSprop", {"centered": True, "momentum": 0.5, "eps": 1e-3}),
    ("Rprop", {}),
    ("Rprop", {"etas": (0.25, 1.5), "step_sizes": (1e-3, 0.02)}),
    ("Rprop", {"maximize": True, "lr": 0.1}),
    ("SGD", {}),
    ("SGD", {"momentum": 0.9, "weight_decay": 0.01, "nesterov": True}),
    ("SGD", {"momentum": 0.9, "dampening": 0.5, "maximize": True}),
]
# For matrices only.
OF_MATRICES = [
    ("Muon", {}),
    ("Muon", {"lr": 0.1, "weight_decay": 0.0, "nesterov": False, "adjust_lr_fn": "match_rms_adamw"}),
]


def name_of(row):
    return f"{row[0]}-{'-'.join(row[1])}"
