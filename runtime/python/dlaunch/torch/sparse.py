"""The sum of sparse tensors, of the dense calls."""

import torch

from dlaunch.torch.work import Done


def all_reduce_sparse(group, tensor, opts):
    """Completes before it returns. `tensor` becomes the coalesced sum, as gloo's does."""
    if tensor.layout != torch.sparse_coo:
        raise ValueError(f"backend dlaunch cannot reduce a tensor of layout {tensor.layout}")
    if getattr(opts.reduceOp, "op", opts.reduceOp) != torch.distributed.ReduceOp.RedOpType.SUM:
        raise ValueError("backend dlaunch can only sum sparse tensors")
    own = tensor.coalesce()
    size = group.size()
    counts = torch.empty(size, dtype=torch.int64)
    group.all_gather_single(counts, torch.tensor([own._nnz()])).wait()
    indices = [torch.empty(own.indices().shape[0], count, dtype=torch.int64) for count in counts.tolist()]
    values = [torch.empty(count, *own.values().shape[1:], dtype=own.dtype) for count in counts.tolist()]
    group.allgather([indices], [own.indices()]).wait()
    group.allgather([values], [own.values()]).wait()
    total = torch.sparse_coo_tensor(torch.cat(indices, 1), torch.cat(values), own.shape).coalesce()
    with torch.no_grad():
        tensor.copy_(total)
    return Done([tensor])
