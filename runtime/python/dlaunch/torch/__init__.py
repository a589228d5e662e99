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
    """Called by PyTorch at the end of `import torch`, in every program. Before 2.14 it looks for backends at no other time."""
    import os

    from torch.distributed import Backend, is_available

    if is_available() and not hasattr(Backend, "_ensure_backend_registered"):
        register()

    asked = os.environ.get("DLAUNCH_ACCELERATE")
    if asked:
        from dlaunch.torch import takeover

        takeover.begin(asked)
