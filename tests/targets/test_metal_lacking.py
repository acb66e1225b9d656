"""The operators that torch has no Metal kernel for, read from torch's own table."""

import pytest

from kernelwright.targets.metal_lacking import lacking, lacks, read

TABLE = """
- func: both(Tensor self) -> Tensor
  dispatch:
    CPU, CUDA: both_cpu
    MPS: both_mps

- func: alone(Tensor self) -> Tensor
  variants: function, method
  dispatch:
    CPU: alone_cpu
    CUDA: alone_cuda
  tags: core

- func: alone_(Tensor(a!) self) -> Tensor(a!)
  structured_delegate: alone.out

- func: alone.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)
  structured: True
  dispatch:
    CPU, CUDA: alone_out

- func: everywhere(Tensor self) -> Tensor
  dispatch:
    CPU: everywhere_cpu
    CompositeExplicitAutograd: everywhere

- func: implicit(Tensor self) -> Tensor

- func: mkldnn_thing(Tensor self) -> Tensor
  dispatch:
    CPU: thing
"""


def test_a_table_is_read() -> None:
    assert read(TABLE) == {"alone", "alone_", "alone.out"}


@pytest.mark.skipif(not lacking(), reason="this torch brings no table of its operators")
def test_torchs_own_table() -> None:
    assert 100 < len(lacking()) < 1000
    assert lacks("aten::linalg_eig") and lacks("aten::mode") and lacks("aten::_adaptive_avg_pool3d")
    usual = (
        "mm addmm bmm convolution gelu relu_ add.Tensor native_layer_norm _softmax sum.dim_IntList embedding topk sort"
    )
    assert [name for name in usual.split() if lacks(f"aten::{name}")] == []
