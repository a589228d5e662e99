"""A worker of dlaunch.run.elastic_launch: `python -m dlaunch.call FILE` calls the function that FILE holds."""

import json
import multiprocessing.spawn
import os
import pickle
import sys
import time
import traceback


def _write_error(error):
    """Where the launcher looks for the reason (TORCHELASTIC_ERROR_FILE), as torch.distributed's @record writes it."""
    path = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if not path:
        return
    text = {"message": f"{type(error).__name__}: {error}",
            "extraInfo": {"py_callstack": traceback.format_exc(), "timestamp": str(int(time.time()))}}
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"message": text}, file)


def main(file):
    with open(file, "rb") as call:
        # As multiprocessing's children: the main module of the caller is imported under another name.
        multiprocessing.spawn.prepare(pickle.load(call))
        function, arguments = pickle.load(call)
    try:
        result = function(*arguments)
    except Exception as error:
        _write_error(error)
        raise
    path = os.path.join(os.path.dirname(file), f"{os.environ['DLAUNCH_ROUND']}.{os.environ['RANK']}.result")
    with open(f"{path}.partial", "wb") as output:
        pickle.dump(result, output)
    os.replace(f"{path}.partial", path)


if __name__ == "__main__":
    main(sys.argv[1])
