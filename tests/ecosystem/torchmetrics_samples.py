"""torchmetrics: metrics of two batches, with PyTorch's values, and their copies."""

# ruff: noqa: C408

import copy
import pickle

import pytest
import torch
import torchmetrics as tm
import torchmetrics.audio
import torchmetrics.clustering
import torchmetrics.image
import torchmetrics.nominal
import torchmetrics.retrieval
import torchmetrics.text

p = torch.tensor([[0.1, 0.7, 0.2], [0.8, 0.1, 0.1], [0.2, 0.3, 0.5], [0.3, 0.4, 0.3], [0.6, 0.2, 0.2], [0.1, 0.1, 0.8]])
t = torch.tensor([1, 0, 2, 2, 0, 1])
C = dict(task="multiclass", num_classes=3)
x = torch.linspace(0, 1, 40).reshape(8, 5).sin()
y = torch.linspace(1, 0, 40).reshape(8, 5).cos()
bp, bt = p[:, 0], (t == 0).int()
METRICS = dict(
    acc=(tm.Accuracy(**C), p, t),
    f1=(tm.F1Score(**C, average="macro"), p, t),
    auroc=(tm.AUROC(**C), p, t),
    cm=(tm.ConfusionMatrix(**C), p, t),
    prec=(tm.Precision(**C, average=None), p, t),
    rec=(tm.Recall(**C), p, t),
    ap=(tm.AveragePrecision(**C), p, t),
    roc=(tm.ROC(task="binary"), bp, bt),
    cal=(tm.CalibrationError(**C), p, t),
    kappa=(tm.CohenKappa(**C), p, t),
    mcc=(tm.MatthewsCorrCoef(**C), p, t),
    jac=(tm.JaccardIndex(**C), p, t),
    spec=(tm.Specificity(**C), p, t),
    hinge=(tm.HingeLoss(**C), p, t),
    strat=(tm.StatScores(**C), p, t),
    mse=(tm.MeanSquaredError(), x, y),
    mae=(tm.MeanAbsoluteError(), x, y),
    r2=(tm.R2Score(), x.flatten(), y.flatten()),
    pear=(tm.PearsonCorrCoef(), x.flatten(), y.flatten()),
    spear=(tm.SpearmanCorrCoef(), x.flatten(), y.flatten()),
    kend=(tm.KendallRankCorrCoef(), x.flatten(), y.flatten()),
    cos=(tm.CosineSimilarity(), x, y),
    ev=(tm.ExplainedVariance(), x, y),
    kl=(tm.KLDivergence(), p, p.flip(1)),
    msle=(tm.MeanSquaredLogError(), x, y),
    mape=(tm.MeanAbsolutePercentageError(), x, y),
    conc=(tm.ConcordanceCorrCoef(), x.flatten(), y.flatten()),
    tweedie=(tm.TweedieDevianceScore(), x + 0.1, y + 0.1),
    psnr=(tm.image.PeakSignalNoiseRatio(data_range=1.0), x, y),
    ssim=(
        tm.image.StructuralSimilarityIndexMeasure(data_range=1.0),
        torch.linspace(0, 1, 1 * 1 * 16 * 16).reshape(1, 1, 16, 16),
        torch.linspace(0, 1, 256).sin().reshape(1, 1, 16, 16),
    ),
    tv=(tm.image.TotalVariation(), torch.linspace(0, 1, 256).reshape(1, 1, 16, 16)),
    snr=(tm.audio.SignalNoiseRatio(), x, y),
    sisdr=(tm.audio.ScaleInvariantSignalDistortionRatio(), x, y),
    perp=(tm.text.Perplexity(), p.unsqueeze(0), t.unsqueeze(0)),
    retr=(tm.retrieval.RetrievalMAP(), bp, bt, torch.tensor([0, 0, 0, 1, 1, 1])),
    ndcg=(tm.retrieval.RetrievalNormalizedDCG(), bp, bt, torch.tensor([0, 0, 0, 1, 1, 1])),
    mean=(tm.MeanMetric(), x),
    cat=(tm.CatMetric(), x),
    mi=(tm.clustering.MutualInfoScore(), t, t.flip(0)),
    ars=(tm.clustering.AdjustedRandScore(), t, t.flip(0)),
    cramer=(tm.nominal.CramersV(num_classes=3), t, t.flip(0)),
)

VALUES = {
    "acc": [0.6667],
    "f1": [0.6667],
    "auroc": [0.7708],
    "cm": [4.0, 0.0, 0.0, 0.0, 2.0, 2.0, 0.0, 2.0, 2.0],
    "prec": [1.0, 0.5, 0.5],
    "rec": [0.6667],
    "ap": [0.75],
    "roc": [[0.0, 0.0, 0.0, 0.25, 0.5, 1.0], [0.0, 0.5, 1.0, 1.0, 1.0, 1.0], [1.0, 0.8, 0.6, 0.3, 0.2, 0.1]],
    "cal": [0.3667],
    "kappa": [0.5],
    "mcc": [0.5],
    "jac": [0.5556],
    "spec": [0.8333],
    "hinge": [0.8333],
    "strat": [8.0, 4.0, 20.0, 4.0, 12.0],
    "mse": [0.1585],
    "mae": [0.3809],
    "r2": [-6.832],
    "pear": [0.9862],
    "spear": [1.0],
    "kend": [1.0],
    "cos": [15.65],
    "ev": [0.3218],
    "kl": [0.6158],
    "msle": [0.07041],
    "mape": [0.4934],
    "conc": [0.3123],
    "tweedie": [0.1585],
    "psnr": [7.999],
    "ssim": [0.9733],
    "tv": [32.0],
    "snr": [7.187],
    "sisdr": [23.5],
    "perp": [2.616],
    "retr": [1.0],
    "ndcg": [1.0],
    "mean": [0.4587],
    "cat": [
        0.0,
        0.02564,
        0.05126,
        0.07685,
        0.1024,
        0.1279,
        0.1532,
        0.1785,
        0.2037,
        0.2287,
        0.2536,
        0.2783,
        0.3029,
        0.3272,
        0.3513,
        0.3752,
        0.3988,
        0.4222,
        0.4453,
        0.4681,
        0.4906,
        0.5128,
        0.5347,
        0.5561,
        0.5773,
        0.598,
        0.6184,
        0.6383,
        0.6578,
        0.6769,
        0.6956,
        0.7138,
        0.7315,
        0.7487,
        0.7655,
        0.7817,
        0.7975,
        0.8127,
        0.8273,
        0.8415,
        0.7817,
        0.7975,
        0.8127,
        0.8273,
        0.8415,
        0.6956,
        0.7138,
        0.7315,
        0.7487,
        0.7655,
        0.598,
        0.6184,
        0.6383,
        0.6578,
        0.6769,
        0.4906,
        0.5128,
        0.5347,
        0.5561,
        0.5773,
        0.3752,
        0.3988,
        0.4222,
        0.4453,
        0.4681,
        0.2536,
        0.2783,
        0.3029,
        0.3272,
        0.3513,
        0.1279,
        0.1532,
        0.1785,
        0.2037,
        0.2287,
        0.0,
        0.02564,
        0.05126,
        0.07685,
        0.1024,
    ],
    "mi": [1.099],
    "ars": [1.0],
    "cramer": [1.0],
}


def numbers(value):
    if isinstance(value, (tuple, list)):
        return [numbers(item) for item in value]
    return [float(f"{number:.4g}") for number in value.double().flatten().tolist()]


def flat(value):
    return [number for item in value for number in flat(item)] if isinstance(value, list) else [value]


@pytest.mark.parametrize("name", METRICS)
def test_values(name):
    metric, *arguments = METRICS[name]
    metric = copy.deepcopy(metric)
    metric.update(*arguments)
    metric.update(*(argument.flip(0) for argument in arguments))
    assert flat(numbers(metric.compute())) == pytest.approx(flat(VALUES[name]), rel=2e-3, abs=1e-6)
    kept = pickle.loads(pickle.dumps(metric))
    assert flat(numbers(kept.compute())) == flat(numbers(metric.compute()))
    metric.reset()
    metric(*arguments)


def test_a_collection():
    both = tm.MetricCollection([tm.Accuracy(**C), tm.F1Score(**C)])
    assert set(both(p, t)) == {"MulticlassAccuracy", "MulticlassF1Score"}
