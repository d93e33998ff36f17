#!/usr/bin/env python3
"""The peer of `npm run bench -- peers`: models as somebody who knows PyTorch would write them.

    pytorch.py CONFIG BATCH THREADS OPTIMIZER VARIANT SECONDS

CONFIG is a, b, c (DLRM), d (DLRM-DCNv2) or w (Wukong) of bench/README.md; OPTIMIZER is sgd or rwsadagrad (rows by row-wise Adagrad,
dense layers by Adagrad). Three ways to keep the tables; who compares takes the fastest:

    bags      an nn.EmbeddingBag for each table, sparse gradients
    fused     all tables in one nn.EmbeddingBag, ids shifted, sparse gradients
    manual    one table outside autograd; gradients of bags are added straight to its rows

It prints one line: torch VERSION …: N steps, samples/s p10 P median M p90 Q. Batches are made
before the clock starts. Times are of whole steps.
"""
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

CONFIGS = {
    "a": dict(tables=26, rows=10_000, dim=16, lookups=1),
    "b": dict(tables=26, rows=200_000, dim=64, lookups=1),
    "c": dict(tables=8, rows=1_000_000, dim=64, lookups=100),
}
CONFIGS["a"].update(bottom=[13, 512, 256, 64, 16], top=[512, 256, 1])
CONFIGS["b"].update(bottom=[13, 512, 256, 64], top=[512, 512, 256, 1])
CONFIGS["c"].update(bottom=[512, 512, 64], top=[1024, 1024, 1024, 1])
CONFIGS["d"] = dict(CONFIGS["b"], cross=3, rank=256)
CONFIGS["w"] = dict(CONFIGS["b"], bottom=[13, 512, 64], top=[256, 1], layers=2, interacted=16, compressed=16, k=24, hidden=512)
RATE = 0.01
EPSILON = 1e-10


class RowWiseAdagrad:
    """One accumulator a row: the mean square of the row's gradient, summed over steps."""

    def __init__(self, rows):
        self.sums = torch.zeros(rows)

    def scale(self, ids, gradients):
        """Scales the gradients (n,dim) of distinct rows `ids` (n), in place."""
        sums = self.sums.index_select(0, ids).add_(gradients.square().mean(1))
        self.sums.index_copy_(0, ids, sums)
        return gradients.div_(sums.sqrt_().add_(EPSILON).unsqueeze(1))


class SparseTables:
    """Variants `bags` and `fused`: autograd makes sparse gradients, an optimizer adds them."""

    def __init__(self, config, optimizer, together):
        self.config, self.together = config, together
        count = 1 if together else config["tables"]
        rows = config["rows"] * config["tables"] // count
        self.bags = nn.ModuleList(
            nn.EmbeddingBag(rows, config["dim"], mode="sum", sparse=True) for _ in range(count)
        )
        weights = list(self.bags.parameters())
        for weight in weights:
            nn.init.uniform_(weight, -0.01, 0.01)
        self.weights = weights
        self.sgd = torch.optim.SGD(weights, lr=RATE) if optimizer == "sgd" else None
        self.rules = [RowWiseAdagrad(rows) for _ in weights] if self.sgd is None else []

    def lookup(self, ids, offsets):
        for weight in self.weights:
            weight.grad = None
        if self.together:
            return self.bags[0](ids, offsets).view(-1, self.config["tables"], self.config["dim"])
        return torch.stack([bag(own, offsets) for bag, own in zip(self.bags, ids)], dim=1)

    def update(self):
        if self.sgd is not None:
            self.sgd.step()
        for weight, rule in zip(self.weights, self.rules):
            gradient = weight.grad.coalesce()
            ids = gradient.indices()[0]
            with torch.no_grad():
                weight.index_add_(0, ids, rule.scale(ids, gradient.values()), alpha=-RATE)


class ManualTables:
    """Variant `manual`: no sparse tensor is made, rows are read and added to by index."""

    def __init__(self, config, optimizer):
        self.config = config
        rows = config["rows"] * config["tables"]
        self.weight = torch.empty(rows, config["dim"]).uniform_(-0.01, 0.01)
        self.rule = RowWiseAdagrad(rows) if optimizer == "rwsadagrad" else None

    def lookup(self, ids, offsets):
        with torch.no_grad():
            if self.config["lookups"] == 1:
                pooled = self.weight.index_select(0, ids)
            else:
                pooled = F.embedding_bag(ids, self.weight, offsets, mode="sum")
        self.ids = ids
        self.pooled = pooled.view(-1, self.config["tables"], self.config["dim"]).requires_grad_()
        return self.pooled

    @torch.no_grad()
    def update(self):
        gradients = self.pooled.grad.view(-1, self.config["dim"])
        if self.config["lookups"] > 1:
            gradients = gradients.repeat_interleave(self.config["lookups"], dim=0)
        ids = self.ids
        if self.rule is not None:
            ids, places = torch.unique(ids, return_inverse=True)
            sums = gradients.new_zeros(len(ids), self.config["dim"])
            gradients = sums.index_add_(0, places, gradients)
            self.rule.scale(ids, gradients)
        self.weight.index_add_(0, ids, gradients, alpha=-RATE)
        self.ids = self.pooled = None  # Freed now, the next step gets the same memory again.


def mlp(widths, relu_last):
    layers = []
    for inputs, outputs in zip(widths, widths[1:]):
        layers += [nn.Linear(inputs, outputs), nn.ReLU(inplace=True)]
    return nn.Sequential(*(layers if relu_last else layers[:-1]))


class Dense(nn.Module):
    """Both MLPs and the dot interaction: logits (B,1) from dense features and pooled rows."""

    def __init__(self, config):
        super().__init__()
        features = config["tables"] + 1
        first, second = torch.tril_indices(features, features, -1)
        self.register_buffer("pairs", first * features + second)
        self.bottom = mlp(config["bottom"], relu_last=True)
        self.top = mlp([config["dim"] + len(self.pairs), *config["top"]], relu_last=False)

    def forward(self, dense, pooled):
        own = self.bottom(dense)
        vectors = torch.cat([own.unsqueeze(1), pooled], dim=1)
        dots = torch.bmm(vectors, vectors.transpose(1, 2)).flatten(1).index_select(1, self.pairs)
        return self.top(torch.cat([own, dots], dim=1))


class CrossNetwork(nn.Module):
    """Cross layers of low rank over all vectors side by side, then an MLP."""

    def __init__(self, config):
        super().__init__()
        width = config["dim"] * (config["tables"] + 1)
        self.bottom = mlp(config["bottom"], relu_last=True)
        layers = range(config["cross"])
        self.narrow = nn.ModuleList(nn.Linear(width, config["rank"], bias=False) for _ in layers)
        self.cross = nn.ModuleList(nn.Linear(config["rank"], width) for _ in layers)
        self.top = mlp([width, *config["top"]], relu_last=False)

    def forward(self, dense, pooled):
        x0 = x = torch.cat([self.bottom(dense), pooled.flatten(1)], dim=1)
        for narrow, cross in zip(self.narrow, self.cross):
            x = torch.addcmul(x, x0, cross(narrow(x)))
        return self.top(x)


class WukongLayer(nn.Module):
    def __init__(self, config, inputs):
        super().__init__()
        dim, k, self.interacted = config["dim"], config["k"], config["interacted"]
        outputs = self.interacted + config["compressed"]
        self.rank = nn.Parameter(torch.randn(k, inputs) * inputs**-0.5)
        self.compress = nn.Parameter(torch.randn(config["compressed"], inputs) * inputs**-0.5)
        self.residual = None
        if inputs != outputs:
            self.residual = nn.Parameter(torch.randn(outputs, inputs) * inputs**-0.5)
        widths = [inputs * k, config["hidden"], self.interacted * dim]
        self.interact = nn.Sequential(nn.LayerNorm(inputs * k), mlp(widths, relu_last=False))
        self.norm = nn.LayerNorm(dim)

    def forward(self, x):
        products = torch.bmm(x, torch.matmul(self.rank, x).transpose(1, 2))
        made = self.interact(products.flatten(1)).view(len(x), self.interacted, -1)
        both = torch.cat([made, torch.matmul(self.compress, x)], dim=1)
        return self.norm(both + (x if self.residual is None else torch.matmul(self.residual, x)))


class Wukong(nn.Module):
    def __init__(self, config):
        super().__init__()
        outputs = config["interacted"] + config["compressed"]
        inputs = [config["tables"] + 1] + [outputs] * (config["layers"] - 1)
        self.bottom = mlp(config["bottom"], relu_last=True)
        self.layers = nn.Sequential(*(WukongLayer(config, own) for own in inputs))
        self.top = mlp([outputs * config["dim"], *config["top"]], relu_last=False)

    def forward(self, dense, pooled):
        x = torch.cat([self.bottom(dense).unsqueeze(1), pooled], dim=1)
        return self.top(self.layers(x).flatten(1))


def make_batch(config, batch, together):
    tables, lookups = config["tables"], config["lookups"]
    dense = torch.rand(batch, config["bottom"][0])
    labels = torch.randint(0, 2, (batch, 1)).float()
    if not together:
        ids = [torch.randint(0, config["rows"], (batch * lookups,)) for _ in range(tables)]
        return dense, labels, ids
    # Bags lie sample by sample, so that the pooled rows need no transposition.
    shift = torch.arange(tables).view(1, tables, 1) * config["rows"]
    ids = torch.randint(0, config["rows"], (batch, tables, lookups)) + shift
    return dense, labels, ids.flatten()


def main(name, batch, threads, optimizer, variant, seconds):
    torch.set_num_threads(threads)
    torch.manual_seed(727)
    config = CONFIGS[name]
    together = variant != "bags"
    if variant == "manual":
        tables = ManualTables(config, optimizer)
    else:
        tables = SparseTables(config, optimizer, together)
    dense = {"d": CrossNetwork, "w": Wukong}.get(name, Dense)(config)
    kind = torch.optim.SGD if optimizer == "sgd" else torch.optim.Adagrad
    update_dense = kind(dense.parameters(), lr=RATE)
    pool = [make_batch(config, batch, together) for _ in range(8 if name == "c" else 16)]
    bags = batch * (config["tables"] if together else 1)
    offsets = torch.arange(0, bags * config["lookups"], config["lookups"])

    def step(features, labels, ids):
        update_dense.zero_grad(set_to_none=True)
        logits = dense(features, tables.lookup(ids, offsets))
        F.binary_cross_entropy_with_logits(logits, labels).backward()
        update_dense.step()
        tables.update()

    for warm_up in range(300 if batch < 512 else 3):  # As many small steps as ours.
        step(*pool[warm_up % len(pool)])
    rates = []
    start = time.perf_counter()
    while time.perf_counter() - start < seconds or len(rates) < 3:
        begin = time.perf_counter()
        step(*pool[len(rates) % len(pool)])
        rates.append(batch / (time.perf_counter() - begin))
    rates.sort()
    p10, median, p90 = (rates[round(q * (len(rates) - 1))] for q in (0.1, 0.5, 0.9))
    print(f"torch {torch.__version__} {name} {batch} {threads} threads {optimizer} {variant}: "
          f"{len(rates)} steps, samples/s p10 {p10:.0f} median {median:.0f} p90 {p90:.0f}")


if __name__ == "__main__":
    words = sys.argv[1:]
    if len(words) != 6:
        sys.exit(__doc__)
    main(words[0], int(words[1]), int(words[2]), words[3], words[4], float(words[5]))
