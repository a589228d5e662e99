"""dlaunch for Python: `init_process_group("dlaunch")` (dlaunch.torch), and `dlaunch.run.main(argv)`."""

from importlib.metadata import version as _version

__version__ = _version("dlaunch")
