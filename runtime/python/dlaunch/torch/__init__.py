"""PyTorch's backend "dlaunch": torch.distributed over libdlaunch.

    torch.distributed.init_process_group("dlaunch")                  # or "cpu:dlaunch,cuda:nccl"

PyTorch finds it by itself, through the package's entry points. `dlaunch --accelerate=gloo`, or DLAUNCH_ACCELERATE=gloo, gives it
to programs that name gloo, or no backend.
"""


def register():
    """Makes the backend known to torch.distributed; called by PyTorch."""
    from torch.distributed import Backend

    from dlaunch.torch.group import create

    if "DLAUNCH" not in Backend._plugins:
        Backend.register_backend("dlaunch", create, extended_api=True, devices=["cpu"])


def start():
    """Called by PyTorch at the end of `import torch`, in every program: it does what the environment asks for."""
    import os

    asked = os.environ.get("DLAUNCH_ACCELERATE")
    if asked:
        from dlaunch.torch import takeover

        takeover.begin(asked)
