"""PyTorch's backend "dlaunch": torch.distributed over libdlaunch.

    torch.distributed.init_process_group("dlaunch")                  # or "cpu:dlaunch,cuda:nccl"

PyTorch finds it by itself, through the package's entry points. `dlaunch --accelerate=gloo`, or DLAUNCH_ACCELERATE=gloo, gives it
to programs that name gloo, or no backend.
"""


def _create(opts, _backend_options):
    # The library is loaded when a program uses it, and not by each `import torch`.
    import sys

    from dlaunch.torch.group import make

    return make(opts, sys._getframe(1))


def register():
    """Makes the backend known to torch.distributed; called by PyTorch."""
    from torch.distributed import Backend

    if "DLAUNCH" not in Backend._plugins:
        Backend.register_backend("dlaunch", _create, extended_api=True, devices=["cpu"])


def _register_when_named():
    # Before 2.14 PyTorch looks for no backends, and warns in other backends' groups if one is registered that they do not use.
    from torch.distributed import Backend

    make = Backend.__new__

    def named(kind, name):
        if isinstance(name, str) and "dlaunch" in name.lower():
            register()
        return make(kind, name)

    Backend.__new__ = staticmethod(named)


def start():
    """Called by PyTorch at the end of `import torch`, in every program."""
    import os

    from torch.distributed import is_available

    if not is_available():
        return
    from torch.distributed import Backend

    if not hasattr(Backend, "_ensure_backend_registered"):
        _register_when_named()
    path = os.environ.get("DLAUNCH_TORCH_SOCKET")
    if path:
        import torch

        from dlaunch.torch import recorder

        recorder.use_older_names(torch.__version__)
        recorder.begin(path)
    asked = os.environ.get("DLAUNCH_ACCELERATE")
    if asked:
        from dlaunch.torch import takeover

        takeover.begin(asked)
