# problem: softmax
# target: torch@cuda
"""A CUDA graph over buffers of its own: inputs are copied in, results out."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.graphs = {}

    def forward(self, x):
        key = tuple(x.shape)
        if key not in self.graphs:
            given = torch.empty(x.shape, device=x.device)
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                torch.softmax(given, -1)
            torch.cuda.current_stream().wait_stream(side)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                result = torch.softmax(given, -1)
            self.graphs[key] = graph, given, result
        graph, given, result = self.graphs[key]
        given.copy_(x)
        graph.replay()
        return result.clone()
