"""PyTorch's backend "dlaunch": torch.distributed over libdlaunch.

    torch.distributed.init_process_group("dlaunch")                  # or "cpu:dlaunch,cuda:nccl"

PyTorch finds it by itself, through the package's entry points.
"""


def register():
    """Makes the backend known to torch.distributed; called by PyTorch."""
    from torch.distributed import Backend

    from dlaunch.torch.group import create

    if "DLAUNCH" not in Backend._plugins:
        Backend.register_backend("dlaunch", create, extended_api=True, devices=["cpu"])
