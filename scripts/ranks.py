#!/usr/bin/env python3
"""`routeopd train` and `routeopd eval` on several processes (docs/ranks.md):

    torchrun --nproc-per-node 2 scripts/ranks.py train recipes/lab.toml --out runs/two

Makes the process group that torchrun describes and runs the command in build/librouteopd.so. A restarted run resumes.
ROUTEOPD_LIBRARY names another library, ROUTEOPD_TIMEOUT the seconds that a rank waits for the others (1800).
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
    root = pathlib.Path(__file__).resolve().parent.parent
    places = [os.environ.get("ROUTEOPD_LIBRARY"), root / "build/librouteopd.so", root / "lib/librouteopd.so"]
    library = next((str(place) for place in places if place and os.path.exists(place)), None)
    if library is None:
        return "routeopd: librouteopd.so is not there; `make build` makes it, ROUTEOPD_LIBRARY names it"
    import torch

    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "cpu:gloo"
    timeout = datetime.timedelta(seconds=float(os.environ.get("ROUTEOPD_TIMEOUT", 1800)))
    torch.distributed.init_process_group(backend, timeout=timeout)
    if arguments[:1] == ["train"] and int(os.environ.get("TORCHELASTIC_RESTART_COUNT", 0)) > 0:
        arguments = [word for word in arguments if word != "--resume"] + ["--resume"]
    argv = (ctypes.c_char_p * (1 + len(arguments)))(b"routeopd", *map(os.fsencode, arguments))
    group = torch.distributed.group.WORLD.group_name.encode()
    os._exit(ctypes.CDLL(library).routeopd_ranks(group, len(argv), argv))  # without waiting for ranks that are gone


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
