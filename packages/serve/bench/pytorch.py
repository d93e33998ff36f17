#!/usr/bin/env python3
"""A peer of `npm run bench -- serve`: the DLRM of configuration b in eager mode, on one thread.

    pytorch.py ROWS BATCH SECONDS

It prints the requests of BATCH samples that it answers in a second, one after the other.
"""
import sys
import time

import torch
from torch import nn

TABLES, DIM = 26, 64


class Dlrm(nn.Module):
    def __init__(self, rows):
        super().__init__()
        self.bags = nn.ModuleList(nn.EmbeddingBag(rows, DIM, mode="sum") for _ in range(TABLES))
        self.bottom = layers([13, 512, 256, DIM], last=True)
        pairs = (TABLES + 1) * TABLES // 2
        self.top = layers([DIM + pairs, 512, 512, 256, 1], last=False)
        self.register_buffer("below", torch.tril_indices(TABLES + 1, TABLES + 1, -1))

    def forward(self, dense, ids, offsets):
        first = self.bottom(dense)
        vectors = torch.stack([first] + [bag(own, offsets) for bag, own in zip(self.bags, ids)], 1)
        products = torch.bmm(vectors, vectors.transpose(1, 2))
        return torch.sigmoid(self.top(torch.cat([first, products[:, self.below[0], self.below[1]]], 1)))


def layers(widths, last):
    made = []
    for i, (inputs, outputs) in enumerate(zip(widths, widths[1:])):
        made.append(nn.Linear(inputs, outputs))
        if last or i + 2 < len(widths):
            made.append(nn.ReLU())
    return nn.Sequential(*made)


def main():
    rows, batch, seconds = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = Dlrm(rows).eval()
    offsets = torch.arange(batch)
    requests = [
        (torch.rand(batch, 13), torch.randint(0, rows, (TABLES, batch)), offsets) for _ in range(64)
    ]
    with torch.no_grad():
        for request in requests[:20]:
            model(*request)
        count, begin = 0, time.perf_counter()
        while time.perf_counter() - begin < seconds:
            model(*requests[count % len(requests)])
            count += 1
    print(count / (time.perf_counter() - begin))


main()
