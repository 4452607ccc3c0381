#!/usr/bin/env python3
"""`routeopd train` and `routeopd eval` on several processes, in the group that torchrun describes (docs/ranks.md):

    torchrun --nproc-per-node 2 scripts/ranks.py train recipes/lab.toml --out runs/two

Runs the command in build/librouteopd.so (or ROUTEOPD_LIBRARY). A rank waits ROUTEOPD_TIMEOUT seconds for others (1800).
"""
# SPDX-License-Identifier: Apache-2.0
import ctypes
import datetime
import os
import pathlib
import sys


def main(arguments):
    if missing := {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"} - os.environ.keys():
        return f"routeopd: {min(missing)} is not set; start it as: torchrun --nproc-per-node N {sys.argv[0]} train RECIPE"
    places = [pathlib.Path(__file__).resolve().parents[1] / folder / "librouteopd.so" for folder in ("build", "lib")]
    library = os.environ.get("ROUTEOPD_LIBRARY") or next((str(place) for place in places if place.exists()), None)
    if library is None or not os.path.exists(library):
        return "routeopd: librouteopd.so is not there; `make build` makes it, ROUTEOPD_LIBRARY names it"
    sys.excepthook = lambda _, error, __: print("routeopd: rank", os.environ["RANK"] + ":", error, file=sys.stderr)
    import torch
    if cuda := torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
    restarts, nodes = (int(os.environ.get(name, 0)) for name in ("TORCHELASTIC_RESTART_COUNT", "GROUP_WORLD_SIZE"))
    wait = datetime.timedelta(seconds=float(os.environ.get("ROUTEOPD_TIMEOUT", 1800)))
    store, rank, size = next(torch.distributed.rendezvous("env://", timeout=wait))
    if nodes == 1:  # torchrun's store still has the addresses of ranks that it restarted; several nodes count apart
        store = torch.distributed.PrefixStore(f"start_{restarts}", store)
    torch.distributed.init_process_group("cpu:gloo,cuda:nccl" if cuda else "cpu:gloo", None, wait, size, rank, store)
    arguments += ["--resume"] * (restarts > 0 and arguments[:1] == ["train"] and "--resume" not in arguments)
    argv = (ctypes.c_char_p * (1 + len(arguments)))(b"routeopd", *map(os.fsencode, arguments))
    name = torch.distributed.group.WORLD.group_name.encode()
    os._exit(ctypes.CDLL(library).routeopd_ranks(name, len(argv), argv))  # without waiting for ranks that are gone


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
