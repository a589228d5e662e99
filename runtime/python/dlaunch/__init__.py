"""dlaunch for Python: `init_process_group("dlaunch")` of PyTorch (dlaunch.torch), the same calls on numpy arrays (dlaunch.numpy),
and the launcher for programs that call it (dlaunch.run)."""


def __getattr__(name):
    # On demand: PyTorch imports this package in every program, to find its backend.
    if name != "__version__":
        raise AttributeError(f"module 'dlaunch' has no attribute {name!r}")
    from importlib.metadata import version

    return version("dlaunch")
