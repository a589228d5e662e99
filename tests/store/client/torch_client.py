"""PyTorch's TCPStore and FileStore against ours, or ours against PyTorch's.

  torch_client.py client HOST PORT   exercises the store at HOST:PORT with PyTorch's client
  torch_client.py workers HOST PORT  two processes form a gloo group over it
  torch_client.py joins HOST PORT    is the second of two workers that our master waits for
  torch_client.py server             serves a PyTorch store: prints its port, ends when stdin does
  torch_client.py file PATH WORLD    shares a file with another store, which is ours

Anything else does nothing. Exit code 77: there is no torch.
"""
import datetime
import multiprocessing
import os
import sys

try:
    import torch
    import torch.distributed as dist
except ImportError as failure:
    print("no torch:", failure)
    sys.exit(77)


def seconds(n):
    return datetime.timedelta(seconds=n)


def expect(got, wanted, what):
    if got != wanted:
        sys.exit("%s: got %r, wanted %r" % (what, got, wanted))


def fails(call):
    try:
        call()
    except (RuntimeError, ValueError):
        return True
    return False


def set_soon(host, port, key, value):
    dist.TCPStore(host, port, None, False, timeout=seconds(60)).set(key, value)


def client(host, port):
    store = dist.TCPStore(host, port, None, False, timeout=seconds(60))
    store.set("k", "v")
    expect(store.get("k"), b"v", "get")
    store.set("empty", "")
    expect(store.get("empty"), b"", "get of an empty value")
    expect(store.add("n", 5), 5, "add")
    expect(store.add("n", -7), -2, "add")
    expect(store.get("n"), b"-2", "get of a number")
    expect(store.add("zero", 0), 0, "add of nothing")
    expect(store.compare_set("c", "", "a"), b"a", "compare_set creates")
    expect(store.compare_set("c", "wrong", "b"), b"a", "compare_set refuses")
    expect(store.compare_set("c", "a", "b"), b"b", "compare_set changes")
    expect(store.compare_set("none", "wrong", "b"), b"wrong", "compare_set of an absent key")
    expect(store.num_keys(), 5, "num_keys")
    expect(store.delete_key("zero"), True, "delete_key")
    expect(store.delete_key("zero"), False, "delete_key again")
    large = bytes(range(256)) * 40960
    store.set("large", large)
    expect(store.get("large") == large, True, "a value of 10 MiB")
    inner = dist.PrefixStore("outer", dist.PrefixStore("inner", store))
    inner.set("p", "prefixed")
    expect(store.get("inner/outer/p"), b"prefixed", "PrefixStore")

    setter = multiprocessing.get_context("spawn").Process(target=set_soon, args=(host, port, "late", "now"))
    setter.start()
    expect(store.get("late"), b"now", "get of a key that comes later")
    setter.join()

    newer_client(store)

    # 1.13 abandons a wait without a word; its next request tells, and the wait must not answer a later call
    # (PyTorch's own server lets it).
    expect(fails(lambda: store.wait(["never"], datetime.timedelta(milliseconds=200))), True, "wait for nothing")
    store.wait(["k"], seconds(60))  # also sets the timeout of later calls back
    other = dist.TCPStore(host, port, None, False, timeout=seconds(60))
    other.set("never", "after all")
    expect(other.get("never"), b"after all", "get by the other")
    expect(store.num_keys(), 8, "num_keys after an abandoned wait")
    print("client ok, torch", torch.__version__)


def newer_client(store):
    """What only later versions have."""
    keys = store.num_keys()
    if hasattr(store, "append"):
        store.append("appended", "po")
        store.append("appended", "tato")
        expect(store.get("appended"), b"potato", "append")
        store.delete_key("appended")
    if hasattr(store, "multi_get"):
        store.multi_set(["m1", "m2"], ["1", "2"])
        expect(store.multi_get(["m2", "m1"]), [b"2", b"1"], "multi_get")
        store.delete_key("m1")
        store.delete_key("m2")
    if hasattr(store, "queue_push"):
        store.queue_push("q", "1")
        expect(store.queue_len("q"), 1, "queue_len")
        expect(store.queue_pop("q"), b"1", "queue_pop")
        expect(fails(lambda: store.queue_pop("q", block=False)), True, "queue_pop of nothing")
    if hasattr(store, "list_keys"):
        expect("k" in store.list_keys(), True, "list_keys")
    if hasattr(store, "barrier"):
        store.barrier("b", 1)
        store.delete_key("b")
    expect(store.num_keys(), keys, "num_keys after the newer functions")


def joins(host, port):
    store = dist.TCPStore(host, port, 2, False, timeout=seconds(60))
    store.set("joined", "v")
    expect(store.get("end"), b"now", "get of the master's key")


def file(path, world_size):
    store = dist.FileStore(path, world_size)
    store.set_timeout(seconds(60))
    expect(store.get("ours"), b"\0\xff", "get of any bytes")
    expect(store.get("empty"), b"", "get of an empty value")
    expect(store.compare_set("c", "", "torch"), b"ours", "compare_set of what is there")
    expect(store.compare_set("c", "ours", "torch"), b"torch", "compare_set changes")
    store.set("its", "\u00fc")
    store.delete_key("no more")
    store.set("ready", "")
    for _ in range(1000):
        store.add("n", 1)
    for i in range(10):
        store.set("pong%d" % i, store.get("ping%d" % i))
    expect(store.get("end"), b"now", "get of the last key")


def worker(rank, host, port):
    os.environ.update(MASTER_ADDR=host, MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE="2",
                      TORCHELASTIC_USE_AGENT_STORE="True", TORCHELASTIC_RESTART_COUNT="0")
    dist.init_process_group("gloo", timeout=seconds(60))
    tensor = torch.ones(4) * (rank + 1)
    dist.all_reduce(tensor)
    expect(tensor.tolist(), [3.0] * 4, "all_reduce")
    group = dist.new_group([0, 1])
    dist.barrier(group)
    dist.destroy_process_group()


def workers(host, port):
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=worker, args=(rank, host, port)) for rank in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    expect([process.exitcode for process in processes], [0, 0], "exit codes")
    print("workers ok, torch", torch.__version__)


def server():
    store = dist.TCPStore("127.0.0.1", 0, None, True, timeout=seconds(60))
    print("PORT", store.port, "TORCH", torch.__version__, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    if sys.argv[1] == "client":
        client(sys.argv[2], int(sys.argv[3]))
    elif sys.argv[1] == "workers":
        workers(sys.argv[2], int(sys.argv[3]))
    elif sys.argv[1] == "joins":
        joins(sys.argv[2], int(sys.argv[3]))
    elif sys.argv[1] == "file":
        file(sys.argv[2], int(sys.argv[3]))
    elif sys.argv[1] == "server":
        server()
