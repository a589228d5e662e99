"""dlaunch for Python: `init_process_group("dlaunch")` (dlaunch.torch), and `dlaunch.run.main(argv)`."""
