"""dlaunch for Python: `init_process_group("dlaunch")` (dlaunch.torch), and `dlaunch.run.main(argv)`."""


def __getattr__(name):
    # On demand: PyTorch imports this package in every program, to find its backend.
    if name != "__version__":
        raise AttributeError(f"module 'dlaunch' has no attribute {name!r}")
    from importlib.metadata import version

    return version("dlaunch")
