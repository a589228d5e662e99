// Remote calls with tensors of LibTorch, and training over them: torch.distributed.rpc and what stands on it.
//
// rpc_tensors.h: at::Tensor as argument and result. dist_autograd.h: gradients through calls.
// remote_module.h: modules in other workers. distributed_optimizer.h: an optimizer of their parameters. The
// calls themselves are those of dlaunch/rpc.h and dlaunch/rref.h.
#pragma once

#include "dlaunch/rpc.h"
#include "dlaunch/rref.h"
#include "dlaunch/torch/dist_autograd.h"
#include "dlaunch/torch/distributed_optimizer.h"
#include "dlaunch/torch/remote_module.h"
#include "dlaunch/torch/rpc_tensors.h"
