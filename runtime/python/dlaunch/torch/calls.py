"""The operations of a group, as PyTorch's ProcessGroup and its Backend both name them."""

import ctypes
from datetime import timedelta

import torch
import torch.distributed as dist

from dlaunch.call_sites import name_caller
from dlaunch.library import ERROR_NETWORK, Calls
from dlaunch.torch.errors import NotOffered, check, error_of
from dlaunch.torch.sparse import all_reduce_sparse
from dlaunch.torch.tensors import DTYPES, UNSIGNED, Prepared, is_plain, listed, moved, reduced
from dlaunch.torch.work import DONE, Done, Together, Work, milliseconds

_KINDS = dist.ReduceOp.RedOpType
_OPS = {_KINDS.SUM: 0, _KINDS.AVG: 1, _KINDS.PRODUCT: 2, _KINDS.MIN: 3, _KINDS.MAX: 4, _KINDS.BAND: 5, _KINDS.BOR: 6,
        _KINDS.BXOR: 7}
_SUM, _AVG, _MIN, _MAX = 0, 1, 3, 4
_byref, _void = ctypes.byref, ctypes.c_void_p


def _operation(reduce_op):
    """(number, factor); the factor only for a premultiplied sum."""
    kind = getattr(reduce_op, "op", reduce_op)
    number = _OPS.get(kind)
    if number is not None:
        return number, None
    if kind == _KINDS.PREMUL_SUM:
        factor = reduce_op.factor
        return _SUM, float(factor.item() if isinstance(factor, torch.Tensor) else factor)
    raise ValueError(f"backend dlaunch does not support {kind}")


def _dtype(tensor, number):
    found = DTYPES.get(tensor.dtype)
    if found is not None:
        return found
    if number not in (_AVG, _MIN, _MAX) and tensor.dtype in UNSIGNED:
        return UNSIGNED[tensor.dtype]
    raise TypeError(f"backend dlaunch cannot reduce {tensor.dtype} with this operation: convert the tensor first")


def _one(tensors):
    if isinstance(tensors, torch.Tensor):
        return tensors
    if len(tensors) != 1:
        raise ValueError(f"backend dlaunch takes one tensor a rank, not {len(tensors)}")
    return tensors[0]


def _require_cpu(*tensors):
    for tensor in tensors:
        if tensor.device.type != "cpu":
            raise NotOffered(f"backend dlaunch has no operations on {tensor.device}: name a backend for that device too, as in "
                             "init_process_group('cpu:dlaunch,cuda:nccl')")


class _Options:
    """Of a call that names none."""

    asyncOp, timeout, rootRank, reduceOp = True, None, 0, _KINDS.SUM


_none = _Options()


def _options(given, timeout=None):
    """PyTorch's short forms name the reduction or the root in place of options."""
    if given is None:
        return _none
    if hasattr(given, "timeout"):
        return given
    made = _Options()
    made.timeout = timeout
    if isinstance(given, int):
        made.rootRank = given
    else:
        made.reduceOp = given
    return made


class GroupCalls:
    """A class with a handle `_group`, the members' ranks in the job `_job_ranks`, and `_default_timeout`."""

    _group = None
    _sequence = 0
    _error_status = 0
    _collected = None  # works, between start_coalescing and end_coalescing

    def _start(self, call, opts, tensors, outputs, prepared, *arguments):
        """`arguments`: of the C call, up to its group. `tensors`: kept until the operation has ended."""
        if self._group is None:
            raise dist.DistError("the process group has been destroyed or aborted")
        self._sequence += 1
        name_caller(2)
        finish = prepared.finish() if prepared else None
        if not getattr(opts, "asyncOp", True) and self._collected is None:
            status = call(*arguments, self._group, milliseconds(opts.timeout), None)
            if status:
                raise self._failed(status)
            if finish:
                finish()
            return DONE
        handle = _void()
        status = call(*arguments, self._group, milliseconds(opts.timeout), _byref(handle))
        if status:
            raise self._failed(status)
        work = Work(handle, tensors, outputs, finish)
        if self._collected is not None:
            self._collected.append(work)
        return work

    def _failed(self, status):
        self._error_status = status
        return error_of(status)

    def allreduce(self, tensors, opts=None, timeout=None):
        tensor, opts = _one(tensors), _options(opts, timeout)
        if tensor.layout != torch.strided:
            return all_reduce_sparse(self, tensor, opts)
        _require_cpu(tensor)
        number, factor = _operation(opts.reduceOp)
        prepared = None
        dense = tensor
        if not is_plain(tensor):
            prepared = Prepared()
            dense = prepared.output(tensor, keep=True)
        described = reduced(dense, _dtype(dense, number))
        if factor is None:
            return self._start(Calls.all_reduce, opts, dense, [tensor], prepared, _byref(described), number)
        return self._start(Calls.all_reduce_premul_sum, opts, dense, [tensor], prepared, _byref(described), factor)

    def allreduce_sparse(self, tensors, opts=None):
        return all_reduce_sparse(self, _one(tensors), _options(opts))

    def allreduce_coalesced(self, tensors, opts=None):
        opts, prepared = _options(opts), Prepared()
        _require_cpu(*tensors)
        number, factor = _operation(opts.reduceOp)
        if factor is not None or len({tensor.dtype for tensor in tensors}) > 1:
            return self._together(lambda tensor: self.allreduce([tensor], opts), tensors)
        dense = [prepared.output(tensor, keep=True) for tensor in tensors]
        described = [reduced(tensor, _dtype(tensor, number)) for tensor in dense]
        return self._start(Calls.all_reduce_coalesced, opts, dense, list(tensors), prepared, listed(described), len(dense), number)

    def _together(self, call, *lists):
        works = [call(*items) for items in zip(*lists)]
        return Together(works) if any(work is not DONE for work in works) else DONE

    def broadcast(self, tensors, opts=None, timeout=None):
        tensor, opts, prepared = _one(tensors), _options(opts, timeout), Prepared()
        _require_cpu(tensor)
        dense = prepared.output(tensor, keep=True)
        return self._start(Calls.broadcast, opts, dense, [tensor], prepared, _byref(moved(dense)), self._job_ranks[opts.rootRank])

    def reduce(self, tensors, opts=None, op=None, timeout=None):
        opts = _options(opts, timeout)
        if op is not None:
            opts.reduceOp = op
        tensor, prepared = _one(tensors), Prepared()
        _require_cpu(tensor)
        number, factor = _operation(opts.reduceOp)
        dense = prepared.output(tensor, keep=True)
        described, root = reduced(dense, _dtype(dense, number)), self._job_ranks[opts.rootRank]
        if factor is None:
            return self._start(Calls.reduce, opts, dense, [tensor], prepared, _byref(described), root, number)
        return self._start(Calls.reduce_premul_sum, opts, dense, [tensor], prepared, _byref(described), root, factor)

    def allgather(self, output_tensors, input_tensors, opts=None, timeout=None):
        if isinstance(input_tensors, torch.Tensor):
            output_tensors = [output_tensors]
        outputs, tensor, prepared = _one_list(output_tensors), _one(input_tensors), Prepared()
        _require_cpu(tensor, *outputs)
        dense, given = [prepared.output(output) for output in outputs], prepared.input(tensor)
        described = [moved(output) for output in dense]
        return self._start(Calls.all_gather, _options(opts, timeout), (dense, given), outputs, prepared, listed(described),
                           len(dense), _byref(moved(given)))

    def allgather_coalesced(self, output_lists, input_tensors, opts=None):
        # Lists by rank, then by tensor.
        by_tensor = [list(outputs) for outputs in zip(*output_lists)]
        return self._together(lambda outputs, tensor: self.allgather([outputs], [tensor], opts), by_tensor, input_tensors)

    def all_gather_single(self, output, input, opts=None, timeout=None):
        prepared = Prepared()
        _require_cpu(output, input)
        dense, given = prepared.output(output), prepared.input(input)
        return self._start(Calls.all_gather_into_tensor, _options(opts, timeout), (dense, given), [output], prepared,
                           _byref(moved(dense)), _byref(moved(given)))

    def all_gather_single_coalesced(self, outputs, inputs, opts=None):
        if len({tensor.dtype for tensor in inputs}) > 1:
            return self._together(lambda output, given: self.all_gather_single(output, given, opts), outputs, inputs)
        prepared = Prepared()
        _require_cpu(*outputs, *inputs)
        dense, given = [prepared.output(output) for output in outputs], [prepared.input(tensor) for tensor in inputs]
        into, of = [moved(tensor) for tensor in dense], [moved(tensor) for tensor in given]
        return self._start(Calls.all_gather_into_tensor_coalesced, _options(opts), (dense, given), list(outputs), prepared,
                           listed(into), listed(of), len(into))

    def gather(self, output_tensors, input_tensors, opts=None, timeout=None):
        opts, prepared = _options(opts, timeout), Prepared()
        outputs = _one_list(output_tensors) if output_tensors and output_tensors[0] else []
        tensor = _one(input_tensors)
        _require_cpu(tensor, *outputs)
        dense, given = [prepared.output(output) for output in outputs], prepared.input(tensor)
        described = [moved(output) for output in dense]
        return self._start(Calls.gather, opts, (dense, given), outputs, prepared, listed(described), len(dense),
                           _byref(moved(given)), self._job_ranks[opts.rootRank])

    def scatter(self, output_tensors, input_tensors, opts=None, timeout=None):
        opts, prepared, output = _options(opts, timeout), Prepared(), _one(output_tensors)
        inputs = _one_list(input_tensors) if input_tensors and input_tensors[0] else []
        _require_cpu(output, *inputs)
        dense, given = prepared.output(output), [prepared.input(tensor) for tensor in inputs]
        described = [moved(tensor) for tensor in given]
        return self._start(Calls.scatter, opts, (dense, given), [output], prepared, _byref(moved(dense)), listed(described),
                           len(given), self._job_ranks[opts.rootRank])

    def reduce_scatter(self, output_tensors, input_tensors, opts=None, timeout=None):
        if isinstance(output_tensors, torch.Tensor):
            input_tensors = [input_tensors]
        opts, prepared = _options(opts, timeout), Prepared()
        output, inputs = _one(output_tensors), _one_list(input_tensors)
        _require_cpu(output, *inputs)
        number, factor = _operation(opts.reduceOp)
        dense, given = prepared.output(output), [prepared.input(tensor) for tensor in inputs]
        dtype = _dtype(output, number)
        described = [reduced(tensor, dtype) for tensor in given]
        call = Calls.reduce_scatter if factor is None else Calls.reduce_scatter_premul_sum
        return self._start(call, opts, (dense, given), [output], prepared, _byref(reduced(dense, dtype)), listed(described),
                           len(given), number if factor is None else factor)

    def reduce_scatter_single(self, output, input, opts=None, timeout=None):
        opts, prepared = _options(opts, timeout), Prepared()
        _require_cpu(output, input)
        number, factor = _operation(opts.reduceOp)
        dense, given, dtype = prepared.output(output), prepared.input(input), _dtype(output, number)
        call = Calls.reduce_scatter_tensor if factor is None else Calls.reduce_scatter_tensor_premul_sum
        return self._start(call, opts, (dense, given), [output], prepared, _byref(reduced(dense, dtype)),
                           _byref(reduced(given, dtype)), number if factor is None else factor)

    def reduce_scatter_single_coalesced(self, outputs, inputs, opts=None):
        opts = _options(opts)
        number, factor = _operation(opts.reduceOp)
        if factor is not None or len({tensor.dtype for tensor in inputs}) > 1:
            return self._together(lambda output, given: self.reduce_scatter_single(output, given, opts), outputs, inputs)
        prepared = Prepared()
        _require_cpu(*outputs, *inputs)
        dense, given = [prepared.output(output) for output in outputs], [prepared.input(tensor) for tensor in inputs]
        into = [reduced(tensor, _dtype(tensor, number)) for tensor in dense]
        of = [reduced(tensor, _dtype(tensor, number)) for tensor in given]
        return self._start(Calls.reduce_scatter_tensor_coalesced, opts, (dense, given), list(outputs), prepared, listed(into),
                           listed(of), len(into), number)

    def alltoall(self, output_tensors, input_tensors, opts=None):
        prepared = Prepared()
        _require_cpu(*output_tensors, *input_tensors)
        dense = [prepared.output(output) for output in output_tensors]
        given = [prepared.input(tensor) for tensor in input_tensors]
        into, of = [moved(tensor) for tensor in dense], [moved(tensor) for tensor in given]
        return self._start(Calls.all_to_all, _options(opts), (dense, given), list(output_tensors), prepared, listed(into),
                           listed(of), len(into))

    def all_to_all_single(self, output, input, output_split_sizes=(), input_split_sizes=(), opts=None):
        prepared = Prepared()
        _require_cpu(output, input)
        dense, given = prepared.output(output), prepared.input(input)
        into, of = moved(dense), moved(given)
        return self._start(Calls.all_to_all_single, _options(opts), (dense, given), [output], prepared, _byref(into), _byref(of),
                           self._splits(output, output_split_sizes), self._splits(input, input_split_sizes))

    def _splits(self, tensor, splits):
        """Rows as elements (or bytes), as the tensors are described."""
        if not splits:
            if tensor.dim() > 0 and tensor.size(0) % self.size():
                raise ValueError(f"the first dimension of a tensor, {tensor.size(0)}, is not divisible by the {self.size()} ranks")
            return None
        if len(splits) != self.size():
            raise ValueError(f"{len(splits)} split sizes for {self.size()} ranks")
        if sum(splits) != tensor.size(0):
            raise ValueError(f"the split sizes have a sum of {sum(splits)}, but the first dimension is {tensor.size(0)}")
        row = tensor.numel() // tensor.size(0) if tensor.size(0) else 0
        if tensor.dtype not in DTYPES:
            row *= tensor.element_size()
        return (ctypes.c_int64 * len(splits))(*(split * row for split in splits))

    def barrier(self, opts=None, timeout=None):
        return self._start(Calls.barrier, _options(opts, timeout), None, [], None)

    def monitored_barrier(self, timeout=None, wait_all_ranks=False):
        # From C++ the options come; they hold the timeout.
        name_caller(1)
        limit = timeout if timeout is None or isinstance(timeout, timedelta) else timeout.timeout
        # Zero, which elsewhere means the group's timeout, is a short one here, as gloo's.
        check(Calls.monitored_barrier(self._group, 1 if limit == timedelta(0) else milliseconds(limit), int(wait_all_ranks)))

    def send(self, tensors, dst, tag=0):
        tensor, prepared = _one(tensors), Prepared()
        _require_cpu(tensor)
        dense = prepared.input(tensor)
        return self._message(Calls.send, dense, [tensor], prepared, dst, tag)

    def recv(self, tensors, src, tag=0):
        tensor, prepared = _one(tensors), Prepared()
        _require_cpu(tensor)
        dense = prepared.output(tensor)
        return self._message(lambda *most: Calls.recv(*most[:-1], None, most[-1]), dense, [tensor], prepared, src, tag)

    def recv_anysource(self, tensors, tag=0):
        return self.recv(tensors, None, tag)

    def _message(self, call, dense, outputs, prepared, peer, tag):
        if self._group is None:
            raise dist.DistError("the process group has been destroyed or aborted")
        handle = _void()
        name_caller(2)
        status = call(_byref(moved(dense)), -1 if peer is None else self._job_ranks[peer], tag, self._group, 0, _byref(handle))
        if status:
            raise self._failed(status)
        work = _Message(self, handle, dense, outputs, prepared.finish())
        if self._collected is not None:
            self._collected.append(work)
        return work

    def start_coalescing(self, device=None):
        self._collected = []

    def end_coalescing(self, device=None):
        works, self._collected = self._collected or [], None
        return Together(works) if works else Done()

    def get_error(self):
        kinds = dist._distributed_c10d.ErrorType if hasattr(dist, "_distributed_c10d") else torch._C._distributed_c10d.ErrorType
        if not self._error_status:
            return kinds.SUCCESS
        return kinds.REMOTE_ERROR if self._error_status == ERROR_NETWORK else kinds.COMM_ERROR

    def _set_sequence_number_for_group(self):
        pass  # begins with 0

    def _get_sequence_number_for_group(self):
        return self._sequence

    def set_timeout(self, timeout):
        self._default_timeout = timeout
        check(Calls.set_timeout(self._group, milliseconds(timeout)))

    _set_default_timeout = set_timeout

    def abort(self):
        if self._group is not None:
            Calls.abort(self._group, b"the program aborted the process group")

    def shutdown(self):
        group, self._group = self._group, None
        if group is not None:
            Calls.destroy_group(group)
            Calls.group_free(group)

    def _register_on_completion_hook(self, _hook):
        raise RuntimeError("backend dlaunch has no completion hooks")

    # The names of before 2.14.
    _allgather_base = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    _reduce_scatter_base = reduce_scatter_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced
    alltoall_base = all_to_all_single
    _start_coalescing = start_coalescing
    _end_coalescing = end_coalescing


class _Message(Work):
    """Its source is a rank in the group."""

    def __init__(self, group, handle, tensors, outputs, finish):
        super().__init__(handle, tensors, outputs, finish)
        self._ranks = group._job_ranks

    def source_rank(self):
        rank = Calls.work_source_rank(self._handle)
        return rank if rank < 0 else self._ranks.index(rank)

    _source_rank = source_rank


def _one_list(lists):
    if len(lists) != 1:
        raise ValueError(f"backend dlaunch takes one list of tensors a rank, not {len(lists)}")
    return list(lists[0])
