"""Which of PyTorch's attention kernels may be taken on a GPU."""

# For bf16 on recent GPUs PyTorch may send attention to cuDNN, which writes a plan for each new
# shape: some tens of milliseconds. A training has few shapes, and the plans are soon made. Decoding
# has a new length at each step, and each would wait for a plan that is used once; flash and
# memory-efficient attention take any length as they are.
from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def for_any_length() -> Iterator[None]:
    "Attention without cuDNN while the block runs; on a CPU nothing changes."
    before = torch.backends.cuda.cudnn_sdp_enabled()
    torch.backends.cuda.enable_cudnn_sdp(False)
    try:
        yield
    finally:
        torch.backends.cuda.enable_cudnn_sdp(before)
